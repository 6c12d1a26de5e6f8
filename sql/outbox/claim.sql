-- Claims: the one without order and its guard, and the one in order per key.
-- Tagged lines belong to one variant of a statement; relay/postgres/sql.py says how.

-- name: claim
-- PENDING -> DELIVERING: lease due rows, oldest first, bounded in number and in bytes.
-- Index: idx_openoutbox_processing_queue finds the candidates, a TID scan updates them. A join on event_id instead
-- turns into a hash join with a sequential scan when the batch is large.
-- Locks: the candidates, skipping rows that another session has locked; those beyond the byte budget stay PENDING and are
-- let go at the commit. The oldest one always fits, so that a row larger than the budget is claimed, alone.
-- An event whose lease expired (it may have killed its relay) and that has one attempt left is claimed alone, so that
-- no neighbour is with it when it uses that up: it counts as more bytes than any budget has. One sum does for both bounds,
-- since of the first row alone the sum is what that row has. As float8, which is exact far beyond that: a sum of bigint
-- is numeric, and slower.
-- OCTET_LENGTH() of a toasted payload reads its length from the pointer, not the payload. Headers may be compressed in
-- the table, so their text is measured.
-- The LIMIT is a subquery so that the planner does not know it and always walks the index in order: with the number,
-- and statistics that underrate the backlog, it reads all that is due and sorts it.
-- SET_CONFIG: the commit of a claim does not wait for the disk. A crash of the database may lose the last claims; then
-- their rows are PENDING, as if they had never been claimed, and what their relay still writes under those fences
-- changes nothing. The commit of a verdict waits, and takes all that was logged before it along.
-- Tag excluding: leaves rows out, by their ids or destinations, and reads those of them that are due before the others.
-- Payloads of more than INLINE_BYTES in sum stay behind, so that the commit does not wait for a client that reads slowly
-- or not at all: a statement commits once its result fits into the buffers of the two sockets. They are read afterwards.
-- Parameters: limit, max_bytes, inline_bytes, max_attempts, relay_id; excluded, without.
-- Result: the fields of OutboxEvent in their order, the two that the rows are to be sorted by, and the fence. They come as
-- they lie in the table, since sorting them here would cost another pass over all columns. The payload is NULL in all
-- rows, or in none.
WITH due AS (
    SELECT
        ctid AS tid,
        available_at,
        created_at,
        OCTET_LENGTH(payload) AS payload_bytes,
        CASE
            WHEN attempts + 1::bigint >= %(max_attempts)s::bigint AND STARTS_WITH(last_error, 'LEASE_EXPIRED:')
                THEN 1e15::float8
            ELSE
                (
                    OCTET_LENGTH(payload) + OCTET_LENGTH(event_type) + COALESCE(OCTET_LENGTH(partition_key), 0)
                    + OCTET_LENGTH(headers::text)
                )::float8
        END AS bytes
    FROM openoutbox_events
    WHERE
        status = 'PENDING'
        AND available_at <= NOW()
        AND event_id <> ALL(%(excluded)s::uuid[]) --? excluding
        AND event_type <> ALL(%(without)s::text[]) --? excluding
    ORDER BY available_at, created_at
    LIMIT (
        SELECT CASE WHEN SET_CONFIG('synchronous_commit', 'off', TRUE) = 'off' THEN %(limit)s::bigint END
    )
    FOR UPDATE SKIP LOCKED
),

summed AS (
    SELECT
        tid,
        payload_bytes,
        bytes,
        SUM(bytes) OVER (ORDER BY available_at, created_at ROWS UNBOUNDED PRECEDING) AS total
    FROM due
),

chosen AS (
    SELECT
        tid,
        payload_bytes
    FROM summed
    WHERE total <= %(max_bytes)s::bigint OR total = bytes
)

UPDATE openoutbox_events SET
    status = 'DELIVERING',
    locked_by = %(relay_id)s::text,
    locked_at = NOW(),
    updated_at = NOW()
WHERE ctid = ANY(ARRAY(SELECT tid FROM chosen))
RETURNING
    event_id::text,
    event_type,
    partition_key,
    CASE WHEN (SELECT SUM(payload_bytes) FROM chosen) <= %(inline_bytes)s::bigint THEN payload END AS payload,
    headers::text,
    attempts,
    CASE WHEN ISFINITE(created_at) THEN GREATEST(DATE_PART('epoch', NOW() - created_at), 0) ELSE 0 END AS age,
    SPLIT_PART(last_error, ':', 1) AS last_code,
    DATE_PART('epoch', available_at) AS due_at,
    DATE_PART('epoch', created_at) AS inserted_at,
    locked_at;

-- name: first_due
-- The row that a claim with a limit of 1 would lease.
-- Index: idx_openoutbox_processing_queue. Locks: that row, skipping those that another session has locked, for the length
-- of this statement. Parameters: limit (1), excluded, without. Result: its id, or no row.
SELECT event_id::text
FROM openoutbox_events
WHERE
    status = 'PENDING'
    AND available_at <= NOW()
    AND event_id <> ALL(%(excluded)s::uuid[])
    AND event_type <> ALL(%(without)s::text[])
ORDER BY available_at, created_at
LIMIT (SELECT %(limit)s::bigint)
FOR UPDATE SKIP LOCKED;

-- name: payloads
-- The payloads of claimed rows, for a claim that left them behind; rows that are no longer held are left out.
-- Tags: sizes, the bytes of each payload, which is not read for it; slice, a part of one row's payload, for a payload that
-- is large for one piece.
-- Index: idx_openoutbox_stuck_leases by the exact locked_at, or the primary key. Locks: none.
-- Parameters: ids, relay_id, fence; for a slice one id, start (from 1) and length. Result: id, and the payload, its bytes
-- or its part.
SELECT
    event_id::text,
    payload --? !sizes !slice
    -- OCTET_LENGTH(payload) --? sizes
    -- SUBSTRING(payload FROM %(start)s::int FOR %(length)s::int) --? slice
FROM openoutbox_events
WHERE
    event_id = ANY(%(ids)s::uuid[])
    AND status = 'DELIVERING'
    AND locked_by = %(relay_id)s::text
    AND locked_at = %(fence)s::timestamptz;

-- name: guard
-- For the transaction of a claim, which must walk its index in order whatever the planner believes. Sorting looks cheap
-- to it on a table that was analyzed while nothing waited: it then reads and sorts the whole backlog for every claim. And
-- a LIMIT that it does not know looks like a statement that is worth compiling, where compiling takes a hundred times
-- longer than running it. Local to the transaction; touches no table. Parameters: none.
SELECT
    SET_CONFIG('enable_sort', 'off', TRUE),
    SET_CONFIG('jit', 'off', TRUE);

-- name: ordered
-- PENDING -> DELIVERING in order per key: lease due rows, of each key the first unfinished one and, as far as there is
-- room, those right behind it. Needs the column and the indexes of sql/outbox/extensions/key_order.sql.
-- Tag oldest: looks at WINDOW due rows, the oldest: a claim costs the same whatever waits. Tag by_key goes on where those
-- are all behind others: it looks at the first rows of KEYS keys, in the order of their hashes from FROM on, until LIMIT
-- of them are due, and at the oldest rows without a key: one probe a key, however many rows that has.
-- Why it is safe beside other relays: an older snapshot only ever sees an earlier row of a key as still unfinished, and
-- the lock on the first row, in the very version that the snapshot saw, is the right to the rows behind it.
-- Indexes: idx_openoutbox_processing_queue finds the window; idx_openoutbox_order_waiting the next key, the first row of a
-- key and those behind it; idx_openoutbox_order_dead what holds a key; idx_openoutbox_order_keyless rows without a key;
-- TID scans lock and update.
-- Locks: the first rows, skipping those that another session holds, then all that it writes.
-- An event whose lease expired and that has one attempt left is claimed alone, and the commit does not wait for the disk,
-- both as in claim.
-- The LIMITs that are subqueries keep the planner from knowing them, so that it walks the indexes in order.
-- Tags: excluding leaves rows out, by their ids; peek reads what would be claimed and claims nothing.
-- Parameters: window or keys and from; excluded; limit, run (most rows behind a first one), block (a DEAD row holds its key),
-- max_bytes, inline_bytes (as in claim), max_attempts, relay_id.
-- Result: oldest: rows in the window; by_key: whether there is no key behind those looked at, and the hash of the last
-- one. Then the fields of OutboxEvent in their order, then the fence. One row at least, with NULLs when nothing is
-- claimed; the rows of a key are in order.
WITH RECURSIVE --? by_key
-- WITH --? oldest
looked AS MATERIALIZED ( --? oldest
    SELECT --? oldest
        ctid AS tid, --? oldest
        HASHTEXTEXTENDED(partition_key, 0) AS hash, --? oldest
        insertion_order --? oldest
    FROM openoutbox_events --? oldest
    WHERE status = 'PENDING' AND available_at <= NOW() --? oldest
    ORDER BY available_at, created_at --? oldest
    LIMIT (SELECT %(window)s::bigint) --? oldest
), --? oldest

walked AS ( --? by_key
    ( --? by_key
        SELECT --? by_key
            ctid AS tid, --? by_key
            HASHTEXTEXTENDED(partition_key, 0) AS hash, --? by_key
            insertion_order, --? by_key
            status = 'PENDING' AND available_at <= NOW() AS due, --? by_key
            1::bigint AS step, --? by_key
            (status = 'PENDING' AND available_at <= NOW())::int::bigint AS found --? by_key
        FROM openoutbox_events --? by_key
        WHERE --? by_key
            HASHTEXTEXTENDED(partition_key, 0) >= %(from)s::bigint --? by_key
            AND status IN ('PENDING', 'DELIVERING') --? by_key
            AND partition_key IS NOT NULL --? by_key
        ORDER BY HASHTEXTEXTENDED(partition_key, 0), insertion_order --? by_key
        LIMIT 1 --? by_key
    ) --? by_key
    UNION ALL --? by_key
    SELECT --? by_key
        later.tid, --? by_key
        later.hash, --? by_key
        later.insertion_order, --? by_key
        later.due, --? by_key
        walked.step + 1, --? by_key
        walked.found + later.due::int --? by_key
    FROM walked --? by_key
    CROSS JOIN LATERAL ( --? by_key
        SELECT --? by_key
            ctid AS tid, --? by_key
            HASHTEXTEXTENDED(partition_key, 0) AS hash, --? by_key
            insertion_order, --? by_key
            status = 'PENDING' AND available_at <= NOW() AS due --? by_key
        FROM openoutbox_events --? by_key
        WHERE --? by_key
            HASHTEXTEXTENDED(partition_key, 0) > walked.hash --? by_key
            AND status IN ('PENDING', 'DELIVERING') --? by_key
            AND partition_key IS NOT NULL --? by_key
        ORDER BY HASHTEXTEXTENDED(partition_key, 0), insertion_order --? by_key
        LIMIT 1 --? by_key
    ) AS later --? by_key
    WHERE walked.step < %(keys)s::bigint AND walked.found < %(limit)s::bigint --? by_key
), --? by_key

keyless AS ( --? by_key
    SELECT --? by_key
        ctid AS tid, --? by_key
        NULL::bigint AS hash, --? by_key
        insertion_order --? by_key
    FROM openoutbox_events --? by_key
    WHERE status = 'PENDING' AND available_at <= NOW() AND partition_key IS NULL --? by_key
    ORDER BY available_at, created_at --? by_key
    LIMIT (SELECT %(limit)s::bigint) --? by_key
), --? by_key

-- The first rows of a claim: of each key the first unfinished one, if it is due and no dead one holds it; and rows
-- without a key.
firsts AS MATERIALIZED (
    SELECT * --? oldest
    FROM ( --? oldest
        SELECT DISTINCT ON (hash) * --? oldest
        FROM looked --? oldest
        WHERE hash IS NOT NULL --? oldest
        ORDER BY hash, insertion_order --? oldest
    ) AS candidate --? oldest
    -- SELECT tid, hash, insertion_order FROM walked --? by_key
    WHERE
        insertion_order = ( --? oldest
            SELECT one.insertion_order --? oldest
            FROM openoutbox_events AS one --? oldest
            WHERE --? oldest
                HASHTEXTEXTENDED(one.partition_key, 0) = candidate.hash --? oldest
                AND one.status IN ('PENDING', 'DELIVERING') --? oldest
                AND one.partition_key IS NOT NULL --? oldest
            ORDER BY one.insertion_order --? oldest
            LIMIT 1 --? oldest
        ) --? oldest
        -- due --? by_key
        AND COALESCE(NOT %(block)s::boolean OR insertion_order < (
            SELECT holding.insertion_order
            FROM openoutbox_events AS holding
            WHERE
                HASHTEXTEXTENDED(holding.partition_key, 0) = candidate.hash --? oldest
                -- HASHTEXTEXTENDED(holding.partition_key, 0) = walked.hash --? by_key
                AND holding.status NOT IN ('PENDING', 'DELIVERING', 'DELIVERED')
                AND holding.partition_key IS NOT NULL
            ORDER BY holding.insertion_order
            LIMIT 1
        ), TRUE)
    UNION ALL
    SELECT * FROM keyless --? by_key
    -- SELECT * FROM looked WHERE hash IS NULL --? oldest
),

locked AS MATERIALIZED (
    SELECT
        ctid AS tid,
        OCTET_LENGTH(payload) + OCTET_LENGTH(event_type) + COALESCE(OCTET_LENGTH(partition_key), 0)
        + OCTET_LENGTH(headers::text) AS bytes,
        available_at,
        created_at,
        attempts + 1::bigint >= %(max_attempts)s::bigint AND STARTS_WITH(last_error, 'LEASE_EXPIRED:') AS alone
    FROM openoutbox_events
    WHERE
        ctid = ANY(ARRAY(SELECT firsts.tid FROM firsts))
        AND status = 'PENDING'
        AND available_at <= NOW()
        AND event_id <> ALL(%(excluded)s::uuid[]) --? excluding
    ORDER BY available_at, created_at
    LIMIT (
        SELECT CASE WHEN SET_CONFIG('synchronous_commit', 'off', TRUE) = 'off' THEN %(limit)s::bigint END
    )
    FOR UPDATE SKIP LOCKED
),

-- What was locked in the version that the snapshot saw: no relay has claimed of this key since.
heads AS MATERIALIZED (
    SELECT
        firsts.hash,
        firsts.insertion_order,
        locked.*
    FROM firsts
    INNER JOIN locked ON firsts.tid = locked.tid
),

room AS (
    SELECT LEAST(%(run)s::bigint, %(limit)s::bigint / GREATEST(COUNT(*), 1) - 1) AS each FROM heads
),

-- The rows behind each of them, up to the first one that may not be claimed; equal shares of the room that is left.
following AS (
    SELECT behind.*
    FROM heads
    CROSS JOIN LATERAL (
        SELECT
            run.tid,
            run.bytes,
            run.available_at,
            run.created_at,
            run.alone,
            ROW_NUMBER() OVER in_order AS place,
            BOOL_AND(run.free) OVER in_order AS unbroken
        FROM (
            SELECT
                ctid AS tid,
                insertion_order,
                OCTET_LENGTH(payload) + OCTET_LENGTH(event_type) + COALESCE(OCTET_LENGTH(partition_key), 0)
                + OCTET_LENGTH(headers::text) AS bytes,
                available_at,
                created_at,
                attempts + 1::bigint >= %(max_attempts)s::bigint
                AND STARTS_WITH(last_error, 'LEASE_EXPIRED:') AS alone,
                status = 'PENDING'
                AND available_at <= NOW()
                AND event_id <> ALL(%(excluded)s::uuid[]) --? excluding
                AND COALESCE(
                    NOT %(block)s::boolean OR insertion_order < (
                        SELECT holding.insertion_order
                        FROM openoutbox_events AS holding
                        WHERE
                            HASHTEXTEXTENDED(holding.partition_key, 0) = heads.hash
                            AND holding.status NOT IN ('PENDING', 'DELIVERING', 'DELIVERED')
                            AND holding.partition_key IS NOT NULL
                        ORDER BY holding.insertion_order
                        LIMIT 1
                    ), TRUE
                ) AS free
            FROM openoutbox_events
            WHERE
                HASHTEXTEXTENDED(partition_key, 0) = heads.hash
                AND insertion_order > heads.insertion_order
                AND status IN ('PENDING', 'DELIVERING')
                AND partition_key IS NOT NULL
            ORDER BY insertion_order
            LIMIT (SELECT room.each FROM room)
        ) AS run
        WINDOW in_order AS (ORDER BY run.insertion_order ROWS UNBOUNDED PRECEDING)
    ) AS behind
    WHERE behind.unbroken AND (SELECT room.each > 0 FROM room)
),

summed AS (
    SELECT
        tid,
        SUM(bytes) OVER in_turn AS total,
        BOOL_OR(alone) OVER in_turn AS beside_alone,
        ROW_NUMBER() OVER in_turn AS turn
    FROM (
        SELECT tid, bytes, alone, available_at, created_at, 0 AS place FROM heads
        UNION ALL
        SELECT tid, bytes, alone, available_at, created_at, place FROM following
    ) AS chosen
    WINDOW in_turn AS (ORDER BY place, available_at, created_at ROWS UNBOUNDED PRECEDING)
),

claimed AS (
    UPDATE openoutbox_events SET --? !peek
        status = 'DELIVERING', --? !peek
        locked_by = %(relay_id)s::text, --? !peek
        locked_at = NOW(), --? !peek
        updated_at = NOW() --? !peek
    -- SELECT * FROM openoutbox_events --? peek
    WHERE
        ctid = ANY(ARRAY(
            SELECT tid FROM summed
            WHERE turn = 1 OR (total <= %(max_bytes)s::bigint AND beside_alone IS NOT TRUE)
        ))
        AND status = 'PENDING'
    RETURNING --? !peek
        event_id, event_type, partition_key, payload, headers, attempts, last_error, --? !peek
        created_at, insertion_order, locked_at --? !peek
)

SELECT
    seen.rows, --? oldest
    -- seen.at_the_end, --? by_key
    -- seen.last_hash, --? by_key
    event_id::text,
    event_type,
    partition_key,
    CASE
        WHEN (SELECT SUM(OCTET_LENGTH(sized.payload)) FROM claimed AS sized) <= %(inline_bytes)s::bigint THEN payload
    END AS payload,
    headers::text,
    attempts,
    CASE
        WHEN ISFINITE(created_at) THEN GREATEST(DATE_PART('epoch', NOW() - created_at), 0) ELSE 0
    END AS age,
    SPLIT_PART(last_error, ':', 1) AS last_code,
    locked_at
FROM (SELECT COUNT(*) AS rows FROM looked) AS seen --? oldest
-- FROM ( --? by_key
    -- SELECT --? by_key
        -- ( --? by_key
            -- SELECT COALESCE(MAX(step) < %(keys)s::bigint AND MAX(found) < %(limit)s::bigint, TRUE) FROM walked --? by_key
        -- ) AS at_the_end, --? by_key
        -- (SELECT MAX(hash) FROM walked) AS last_hash --? by_key
-- ) AS seen --? by_key
LEFT JOIN claimed ON TRUE
ORDER BY insertion_order;
