-- Claims without order, and the guard. Those in order per key: claim_ordered.sql.
-- Tagged lines belong to one variant of a statement; client/openoutbox/statements.py says how.

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
-- the table, so their text is measured. One CONCAT instead of a length for each column, and subqueries instead of CTEs:
-- the statement is parsed and planned for every claim, which is most of what a small one costs.
-- The LIMIT is a subquery so that the planner does not know it and always walks the index in order: with the number,
-- and statistics that underrate the backlog, it reads all that is due and sorts it.
-- SET_CONFIG: the commit of a claim does not wait for the disk. A crash of the database may lose the last claims; then
-- their rows are PENDING, as if they had never been claimed, and what their relay still writes under those fences
-- changes nothing. The commit of a verdict waits, and takes all that was logged before it along. Tag durable: it waits, since
-- a proof in the broker must not outlive the claim that it names.
-- It looks from the head on, or at a stretch behind it (relay/outbox/head.py): what was delivered before costs nothing.
-- Tag prepared: takes back for this transaction what session:prepared has set, before it changes a row.
-- Tag tied: of rows that share one place, those between two places in the table, in the order of these. The index has them
-- in that order, too, but has to be walked from the first of them on, dead or not: so its conditions fit no index.
-- Tag excluding: leaves rows out, by their ids or destinations, and reads those of them that are due before the others.
-- Tag paused: leaves out paused event types. Tags in_part, beside fan_out, and apart, both beside paused: see free.
-- Tag fan_out: reads the column of extensions/fan_out.sql. Tag chosen: of some rows alone, found by their ids.
-- Rows of more than INLINE_BYTES in sum leave their payloads behind, so that the commit does not wait for a client that
-- reads slowly or not at all: a statement commits once its result fits into the buffers of the two sockets. The payloads
-- are read afterwards.
-- Parameters: limit, max_bytes, inline_bytes, max_attempts, relay_id; due_from, created_from, due_until, created_until
-- (seconds since 1970); tid_from, tid_until; excluded, without, chosen; paused (patterns); those of free.
-- Result: the fields of OutboxEvent in their order; due_at, by which and inserted_at they are to be sorted; the last place in
-- the table that a row of the claim had before it; the fence (in seconds since 1970, exact to the microsecond), which is
-- NULL for a row that a trigger left as it was. They come as they lie in the table, since sorting them here would cost
-- another pass over all columns. The payload is NULL in all rows, or in none.
WITH chosen AS (
    SELECT
        tid,
        total
    FROM (
        SELECT
            tid,
            bytes,
            SUM(bytes) OVER (ORDER BY available_at, created_at, tid ROWS UNBOUNDED PRECEDING) AS total
        FROM (
            SELECT
                ctid AS tid,
                available_at,
                created_at,
                CASE
                    WHEN attempts >= %(max_attempts)s::bigint - 1 AND STARTS_WITH(last_error, 'LEASE_EXPIRED:')
                        THEN 1e15
                    ELSE (OCTET_LENGTH(payload) + OCTET_LENGTH(CONCAT(event_type, partition_key, headers)))::float8
                END AS bytes
            FROM openoutbox_events
            WHERE
                status = 'PENDING' --? !chosen !tied
                -- status NOT IN ('DELIVERING', 'DELIVERED', 'DEAD') --? chosen
                -- status NOT IN ('DELIVERING', 'DELIVERED', 'DEAD') --? tied
                AND available_at <= NOW()
                AND event_id <> ALL(%(excluded)s::uuid[]) --? excluding
                AND event_type <> ALL(%(without)s::text[]) --? excluding
                -- AND event_id = ANY(%(chosen)s::uuid[]) --? chosen
                AND (available_at, created_at) --? !tied
                -- AND (available_at + INTERVAL '0', created_at) --? tied
                >= (TO_TIMESTAMP(%(due_from)s::float8), TO_TIMESTAMP(%(created_from)s::float8))
                AND (available_at, created_at) --? !tied
                -- AND (available_at + INTERVAL '0', created_at) --? tied
                < (TO_TIMESTAMP(%(due_until)s::float8), TO_TIMESTAMP(%(created_until)s::float8))
                -- AND ctid > %(tid_from)s::tid AND ctid < %(tid_until)s::tid --? tied
                AND event_type NOT LIKE ALL(%(paused)s::text[]) --? paused
                -- AND @outbox/claim:free --? in_part|apart
            ORDER BY available_at, created_at --? !chosen !tied
            -- ORDER BY available_at + INTERVAL '0', created_at --? chosen
            LIMIT (
                SELECT CASE
                    WHEN
                        SET_CONFIG('synchronous_commit', 'off', TRUE) = 'off' --? !durable
                        -- SET_CONFIG('synchronous_commit', 'on', TRUE) = 'on' --? durable
                        AND SET_CONFIG('plan_cache_mode', NULL, TRUE) <> '' --? prepared
                        AND SET_CONFIG('enable_seqscan', NULL, TRUE) <> '' --? prepared
                        AND SET_CONFIG('enable_sort', NULL, TRUE) <> '' --? prepared
                        AND SET_CONFIG('jit', NULL, TRUE) <> '' --? prepared
                        THEN %(limit)s::bigint
                END
            )
            FOR UPDATE SKIP LOCKED
        ) AS due
    ) AS summed
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
    LEFT(event_type, 4097) AS event_type,
    partition_key,
    CASE WHEN (SELECT MAX(total) FROM chosen) <= %(inline_bytes)s::bigint THEN payload END AS payload,
    LEFT(headers::text, 1048577) AS headers,
    GREATEST(attempts, 0) AS attempts,
    CASE WHEN ISFINITE(created_at) THEN GREATEST(DATE_PART('epoch', NOW() - created_at), 0) ELSE 0 END AS age,
    SPLIT_PART(LEFT(last_error, 100), ':', 1) AS last_code,
    DATE_PART('epoch', created_at) AS inserted_at,
    NULL::text AS acknowledged_by, --? !fan_out
    -- LEFT(ARRAY_TO_STRING(acknowledged_by, ','), 16384) AS acknowledged_by, --? fan_out
    DATE_PART('epoch', available_at) AS due_at,
    (SELECT MAX(tid) FROM chosen)::text AS last_tid,
    CASE WHEN status = 'DELIVERING' THEN DATE_PART('epoch', locked_at) END AS fence;

-- name: free
-- Whether claims may take a row whose type is not left out as a whole: what other statements say as @outbox/claim:free.
-- Tag in_part: no, where some destinations have acknowledged it and its type is left out in part. Tag apart: no, where a
-- header sends it to a destination that is left out. The name that it has there is filled in as routes do (relay/routing):
-- strings as they are, other values as their JSON text. Without one of the headers, with an empty one, or where headers
-- are no object, there is no name, and the row is free. Of the patterns of several destinations the first decides.
-- Index: none. Locks: none. Parameters: in_part (patterns of LIKE); apart_types, and apart (jsonb), of each destination an
-- object: the type, whether it is left out in part, what the name begins with, the headers and what follows each, the
-- pattern of LIKE that is left out, and those before it.
SELECT
    (
        TRUE
        -- AND (acknowledged_by IS NULL OR event_type NOT LIKE ALL(%(in_part)s::text[])) --? in_part
        AND ( --? apart
            event_type <> ALL(%(apart_types)s::text[]) --? apart
            OR ( --? apart
                SELECT BOOL_OR(named.whole LIKE one.pattern AND named.whole NOT LIKE ALL(one.earlier)) --? apart
                FROM JSONB_TO_RECORDSET(%(apart)s::jsonb) AS one ( --? apart
                    of_type text, part boolean, start text, gaps text[], texts text[], pattern text, earlier text[] --? apart
                ) --? apart
                CROSS JOIN LATERAL ( --? apart
                    SELECT one.start || STRING_AGG(filled.value || gap.text, '' ORDER BY gap.place) AS whole --? apart
                    FROM UNNEST(one.gaps, one.texts) WITH ORDINALITY AS gap (header, text, place) --? apart
                    CROSS JOIN LATERAL ( --? apart
                        SELECT COALESCE(headers ->> gap.header, (headers -> gap.header)::text) AS value --? apart
                    ) AS filled --? apart
                    HAVING BOOL_AND(COALESCE(filled.value <> '', FALSE)) --? apart
                ) AS named --? apart
                WHERE one.of_type = event_type --? apart
                    -- AND (NOT one.part OR acknowledged_by IS NOT NULL) --? apart in_part
            ) IS NOT TRUE --? apart
        ) --? apart
    )
FROM openoutbox_events;

-- name: first_due
-- The first rows that claims would lease, in their order; with a limit of 1 the row of a claim with that limit.
-- Index: idx_openoutbox_processing_queue. Locks: these rows, skipping those that another session has locked, for the length
-- of this statement. SET_CONFIG: as in claim. Tags paused, in_part, apart and chosen: as in claim. Tag newest: the last ones, the newest first.
-- Parameters: as in claim, and tid_from, the place in the table of the last row before them among those of one time.
-- Result: id, type, key, available_at and created_at (seconds since 1970), place in the table.
SELECT
    event_id::text,
    event_type,
    partition_key,
    DATE_PART('epoch', available_at),
    DATE_PART('epoch', created_at),
    ctid::text
FROM openoutbox_events
WHERE
    status = 'PENDING' --? !chosen
    -- status NOT IN ('DELIVERING', 'DELIVERED', 'DEAD') --? chosen
    AND available_at <= NOW()
    AND (SELECT SET_CONFIG('synchronous_commit', 'off', TRUE)) = 'off'
    AND event_id <> ALL(%(excluded)s::uuid[])
    AND event_type <> ALL(%(without)s::text[])
    -- AND event_id = ANY(%(chosen)s::uuid[]) --? chosen
    -- AND event_type = ANY(%(types)s::text[]) --? of_types
    AND (available_at, created_at, ctid)
    > (TO_TIMESTAMP(%(due_from)s::float8), TO_TIMESTAMP(%(created_from)s::float8), %(tid_from)s::tid)
    AND (available_at, created_at)
    < (TO_TIMESTAMP(%(due_until)s::float8), TO_TIMESTAMP(%(created_until)s::float8))
    AND event_type NOT LIKE ALL(%(paused)s::text[]) --? paused
    -- AND @outbox/claim:free --? in_part|apart
ORDER BY available_at, created_at --? !newest !chosen
-- ORDER BY available_at DESC, created_at DESC --? newest
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
-- longer than running it. Tag prepared: as in session:prepared. Local to the transaction; touches no table. Parameters: none.
SELECT
    SET_CONFIG('enable_seqscan', 'off', TRUE), --? prepared
    SET_CONFIG('enable_sort', 'off', TRUE),
    SET_CONFIG('jit', 'off', TRUE);
