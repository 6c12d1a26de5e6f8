-- Claims in order per key.
-- Tagged lines belong to one variant of a statement; client/openoutbox/statements.py says how.

-- name: ordered
-- PENDING -> DELIVERING in order per key: lease due rows, of each key the first unfinished one and, as far as there is
-- room, those right behind it. Needs the column and the indexes of sql/outbox/extensions/key_order.sql.
-- Tag oldest: looks at WINDOW due rows, the oldest from the head on or in a stretch behind it, as in claim. Tag by_key goes on
-- where those are all behind others: it looks at the first rows of KEYS keys, in the order of their hashes from FROM on, until
-- FIRSTS of them are due, and at the oldest rows without a key: one probe a key.
-- FIRSTS bounds the keys of a claim: where few keys wait, it is smaller than LIMIT, and the claim takes longer runs of fewer
-- keys. The other keys are left to other claims, which a claim of single rows of all keys would keep waiting.
-- Why it is safe beside other relays: an older snapshot only ever sees an earlier row of a key as still unfinished, and
-- the lock on the first row, in the very version that the snapshot saw, is the right to the rows behind it.
-- Indexes: idx_openoutbox_processing_queue finds the window; idx_openoutbox_order_waiting the next key, the first row of a
-- key and those behind it; idx_openoutbox_order_dead what holds a key; idx_openoutbox_order_keyless rows without a key;
-- TID scans lock and update; idx_openoutbox_order_again, with floors, what waits again in its key.
-- Locks: the first rows, skipping those that another session holds, then all that it writes.
-- An event whose lease expired and that has one attempt left is claimed alone, and the commit does not wait for the disk,
-- both as in claim.
-- The LIMITs that are subqueries keep the planner from knowing them, so that it walks the indexes in order; outbox/claim:guard
-- does, whatever it believes of how much waits. What is found by its place in the table says PENDING by what it is not: the
-- planner would take any index of what waits for that, and read all of it, dead entries too.
-- Tags: excluding leaves rows out, by their ids; peek reads what would be claimed and claims nothing; fan_out and paused as
-- in claim, in_part and apart too: a row that is left out holds back its key. chosen, beside oldest: of some rows alone, found by
-- their ids. passed, beside by_key: leaves out first rows before a place up to which claims have gone past (relay/outbox/passed_rows.py).
-- floors, beside oldest: the first unfinished row of a key is looked for from the
-- floor of that key on (relay/outbox/floors.py), below which only what was inserted for later, has failed or was replayed
-- may wait: an index that has nothing else finds that.
-- Parameters: due_from, created_from, due_until, created_until (as in claim; by_key: without the latter two, for rows
-- without a key); window or keys and from; chosen; passed_due, passed_created (seconds
-- since 1970); excluded; limit, firsts (most keys), run (most rows behind a first one), block (a
-- DEAD row holds its key), max_bytes, inline_bytes (as in claim), max_attempts, relay_id; and of paused as in claim; floors
-- (jsonb: the hash of a key to its floor, or to null).
-- Result: how many rows were chosen. oldest: rows in the window, when the first of them was due, and the time of the claim (both in seconds since
-- 1970); by_key: whether there is no key behind those looked at, and the hash of the last
-- one. With floors: the oldest transaction that the snapshot of the claim saw in progress, the first one that it did not
-- see, the hashes of all keys in the window (in the first row alone), and of each row the hash of its key and its place in it. Then
-- the fields of OutboxEvent in their order, then the fence as in claim. One row at least, with NULLs when nothing is claimed; the rows of a
-- key are in order.
WITH RECURSIVE --? by_key
-- WITH --? oldest
looked AS MATERIALIZED ( --? oldest
    SELECT --? oldest
        ctid AS tid, --? oldest
        HASHTEXTEXTENDED(partition_key, 0) AS hash, --? oldest
        event_type NOT LIKE ALL(%(paused)s::text[]) --? oldest paused
        -- AND @outbox/claim:free --? oldest in_part|apart
        AS free, --? oldest paused
        insertion_order, --? oldest
        available_at --? oldest
    FROM openoutbox_events --? oldest
    WHERE --? oldest
        status = 'PENDING' AND available_at <= NOW() --? oldest !chosen
        -- status NOT IN ('DELIVERING', 'DELIVERED', 'DEAD') AND available_at <= NOW() --? oldest chosen
        AND (available_at, created_at) --? oldest !chosen
        >= (TO_TIMESTAMP(%(due_from)s::float8), TO_TIMESTAMP(%(created_from)s::float8)) --? oldest !chosen
        AND (available_at, created_at) --? oldest !chosen
        < (TO_TIMESTAMP(%(due_until)s::float8), TO_TIMESTAMP(%(created_until)s::float8)) --? oldest !chosen
        -- AND event_id = ANY(%(chosen)s::uuid[]) --? oldest chosen
    ORDER BY available_at, created_at --? oldest !chosen
    LIMIT (SELECT %(window)s::bigint) --? oldest
), --? oldest

walked AS ( --? by_key
    ( --? by_key
        SELECT --? by_key
            ctid AS tid, --? by_key
            HASHTEXTEXTENDED(partition_key, 0) AS hash, --? by_key
            insertion_order, --? by_key
            status = 'PENDING' AND available_at <= NOW() --? by_key
            AND event_type NOT LIKE ALL(%(paused)s::text[]) --? by_key paused
            -- AND @outbox/claim:free --? by_key in_part|apart
            -- AND (available_at, created_at) --? by_key passed
            -- >= (TO_TIMESTAMP(%(passed_due)s::float8), TO_TIMESTAMP(%(passed_created)s::float8)) --? by_key passed
            AS due, --? by_key
            1::bigint AS step, --? by_key
            ( --? by_key
                status = 'PENDING' AND available_at <= NOW() --? by_key
                AND event_type NOT LIKE ALL(%(paused)s::text[]) --? by_key paused
                -- AND @outbox/claim:free --? by_key in_part|apart
                -- AND (available_at, created_at) --? by_key passed
                -- >= (TO_TIMESTAMP(%(passed_due)s::float8), TO_TIMESTAMP(%(passed_created)s::float8)) --? by_key passed
            )::int::bigint AS found --? by_key
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
            status = 'PENDING' AND available_at <= NOW() --? by_key
            AND event_type NOT LIKE ALL(%(paused)s::text[]) --? by_key paused
            -- AND @outbox/claim:free --? by_key in_part|apart
            -- AND (available_at, created_at) --? by_key passed
            -- >= (TO_TIMESTAMP(%(passed_due)s::float8), TO_TIMESTAMP(%(passed_created)s::float8)) --? by_key passed
            AS due --? by_key
        FROM openoutbox_events --? by_key
        WHERE --? by_key
            HASHTEXTEXTENDED(partition_key, 0) > walked.hash --? by_key
            AND status IN ('PENDING', 'DELIVERING') --? by_key
            AND partition_key IS NOT NULL --? by_key
        ORDER BY HASHTEXTEXTENDED(partition_key, 0), insertion_order --? by_key
        LIMIT 1 --? by_key
    ) AS later --? by_key
    WHERE walked.step < %(keys)s::bigint AND walked.found < %(firsts)s::bigint --? by_key
), --? by_key

keyless AS ( --? by_key
    SELECT --? by_key
        ctid AS tid, --? by_key
        NULL::bigint AS hash, --? by_key
        insertion_order --? by_key
    FROM openoutbox_events --? by_key
    WHERE --? by_key
        status = 'PENDING' AND available_at <= NOW() AND partition_key IS NULL --? by_key
        AND (available_at, created_at) --? by_key
        >= (TO_TIMESTAMP(%(due_from)s::float8), TO_TIMESTAMP(%(created_from)s::float8)) --? by_key
        AND event_type NOT LIKE ALL(%(paused)s::text[]) --? by_key paused
        -- AND @outbox/claim:free --? by_key in_part|apart
    ORDER BY available_at, created_at --? by_key
    LIMIT (SELECT %(firsts)s::bigint) --? by_key
), --? by_key

-- The first rows of a claim: of each key the first unfinished one, if it is due and no dead one holds it; and rows
-- without a key.
firsts AS MATERIALIZED (
    SELECT tid, hash, insertion_order --? oldest
    FROM ( --? oldest
        SELECT DISTINCT ON (hash) --? oldest
            (%(floors)s::jsonb ->> hash::text)::bigint AS floor, --? oldest floors
            looked.* --? oldest
        FROM looked --? oldest
        WHERE hash IS NOT NULL --? oldest
        ORDER BY hash, insertion_order --? oldest
    ) AS candidate --? oldest
    -- SELECT tid, hash, insertion_order FROM walked --? by_key
    WHERE
        free AND --? oldest paused
        %(floors)s::jsonb ? hash::text AND --? oldest floors
        insertion_order = ( --? oldest
            SELECT one.insertion_order --? oldest
            FROM openoutbox_events AS one --? oldest
            WHERE --? oldest
                HASHTEXTEXTENDED(one.partition_key, 0) = candidate.hash --? oldest
                AND one.status IN ('PENDING', 'DELIVERING') --? oldest
                AND one.partition_key IS NOT NULL --? oldest
                AND one.insertion_order >= CASE --? oldest floors
                    WHEN candidate.floor <= candidate.insertion_order THEN candidate.floor --? oldest floors
                    ELSE '-9223372036854775808'::bigint --? oldest floors
                END --? oldest floors
            ORDER BY one.insertion_order --? oldest
            LIMIT 1 --? oldest
        ) --? oldest
        AND COALESCE(insertion_order <= ( --? oldest floors
            SELECT again.insertion_order --? oldest floors
            FROM openoutbox_events AS again --? oldest floors
            WHERE --? oldest floors
                ~HASHTEXTEXTENDED(again.partition_key, 0) = ~candidate.hash --? oldest floors
                AND again.status IN ('PENDING', 'DELIVERING') --? oldest floors
                AND again.partition_key IS NOT NULL --? oldest floors
                AND again.available_at > again.created_at --? oldest floors
            ORDER BY again.insertion_order --? oldest floors
            LIMIT 1 --? oldest floors
        ), TRUE) --? oldest floors
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
    -- SELECT tid, hash, insertion_order FROM looked WHERE hash IS NULL --? oldest
        -- AND free --? oldest paused
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
        AND status NOT IN ('DELIVERING', 'DELIVERED', 'DEAD')
        AND available_at <= NOW()
        AND event_id <> ALL(%(excluded)s::uuid[]) --? excluding
    ORDER BY available_at, created_at
    LIMIT (
        SELECT CASE
            WHEN
                SET_CONFIG('synchronous_commit', 'off', TRUE) = 'off' --? !durable
                -- SET_CONFIG('synchronous_commit', 'on', TRUE) = 'on' --? durable
                AND SET_CONFIG('plan_cache_mode', NULL, TRUE) <> '' --? prepared
                AND SET_CONFIG('enable_seqscan', NULL, TRUE) <> '' --? prepared
                AND SET_CONFIG('enable_sort', NULL, TRUE) <> '' --? prepared
                AND SET_CONFIG('jit', NULL, TRUE) <> '' --? prepared
                THEN %(firsts)s::bigint
        END
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
                AND event_type NOT LIKE ALL(%(paused)s::text[]) --? paused
                -- AND @outbox/claim:free --? in_part|apart
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

chosen AS MATERIALIZED (
    SELECT tid FROM summed WHERE turn = 1 OR (total <= %(max_bytes)s::bigint AND beside_alone IS NOT TRUE)
),

claimed AS (
    UPDATE openoutbox_events SET --? !peek
        status = 'DELIVERING', --? !peek
        locked_by = %(relay_id)s::text, --? !peek
        locked_at = NOW(), --? !peek
        updated_at = NOW() --? !peek
    -- SELECT * FROM openoutbox_events --? peek
    WHERE
        ctid = ANY(ARRAY(SELECT chosen.tid FROM chosen))
        AND status NOT IN ('DELIVERING', 'DELIVERED', 'DEAD')
    RETURNING --? !peek
        event_id, event_type, partition_key, payload, headers, attempts, last_error, --? !peek
        created_at, insertion_order, --? !peek
        -- acknowledged_by, --? !peek fan_out
        locked_at --? !peek
)

SELECT
    (SELECT COUNT(*) FROM chosen) AS chosen,
    seen.rows, --? oldest
    DATE_PART('epoch', seen.first_due) AS first_due, --? oldest
    DATE_PART('epoch', NOW()) AS seen_at, --? oldest
    PG_SNAPSHOT_XMIN(PG_CURRENT_SNAPSHOT())::text::bigint AS in_progress_from, --? oldest floors
    PG_SNAPSHOT_XMAX(PG_CURRENT_SNAPSHOT())::text::bigint AS unseen_from, --? oldest floors
    ( --? oldest floors
        SELECT ARRAY_AGG(DISTINCT looked.hash) FROM looked --? oldest floors
        WHERE COALESCE(claimed.insertion_order = (SELECT MIN(one.insertion_order) FROM claimed AS one), TRUE) --? oldest floors
    ) AS key_hashes, --? oldest floors
    HASHTEXTEXTENDED(partition_key, 0) AS hash, --? oldest floors
    insertion_order, --? oldest floors
    -- seen.at_the_end, --? by_key
    -- seen.last_hash, --? by_key
    event_id::text,
    LEFT(event_type, 4097) AS event_type,
    partition_key,
    CASE
        WHEN (SELECT SUM(OCTET_LENGTH(sized.payload)) FROM claimed AS sized) <= %(inline_bytes)s::bigint THEN payload
    END AS payload,
    LEFT(headers::text, 1048577) AS headers,
    GREATEST(attempts, 0) AS attempts,
    CASE
        WHEN ISFINITE(created_at) THEN GREATEST(DATE_PART('epoch', NOW() - created_at), 0) ELSE 0
    END AS age,
    SPLIT_PART(LEFT(last_error, 100), ':', 1) AS last_code,
    DATE_PART('epoch', created_at) AS inserted_at,
    NULL::text AS acknowledged_by, --? !fan_out
    -- LEFT(ARRAY_TO_STRING(acknowledged_by, ','), 16384) AS acknowledged_by, --? fan_out
    DATE_PART('epoch', locked_at) AS fence
FROM (SELECT COUNT(*) AS rows, MIN(available_at) AS first_due FROM looked) AS seen --? oldest
-- FROM ( --? by_key
    -- SELECT --? by_key
        -- ( --? by_key
            -- SELECT COALESCE(MAX(step) < %(keys)s::bigint AND MAX(found) < %(firsts)s::bigint, TRUE) FROM walked --? by_key
        -- ) AS at_the_end, --? by_key
        -- (SELECT MAX(hash) FROM walked) AS last_hash --? by_key
-- ) AS seen --? by_key
LEFT JOIN claimed ON TRUE
ORDER BY insertion_order;

-- name: kept
-- Of rows that were claimed, those behind one of their key that waits still: a BEFORE trigger or a rule kept that as it was.
-- Indexes: the primary key, idx_openoutbox_order_waiting. Locks: none. Parameters: event_ids. Result: the row, and the one before.
SELECT
    claimed.event_id::text,
    waiting.event_id::text AS kept_id
FROM openoutbox_events AS claimed
CROSS JOIN LATERAL (
    SELECT one.event_id
    FROM openoutbox_events AS one
    WHERE
        HASHTEXTEXTENDED(one.partition_key, 0) = HASHTEXTEXTENDED(claimed.partition_key, 0)
        AND one.status = 'PENDING'
        AND one.partition_key IS NOT NULL
        AND one.insertion_order < claimed.insertion_order
    ORDER BY one.insertion_order
    LIMIT 1
) AS waiting
WHERE claimed.event_id = ANY(%(event_ids)s::uuid[]);
