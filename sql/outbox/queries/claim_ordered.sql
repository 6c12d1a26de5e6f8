-- PENDING -> DELIVERING in order per key: lease due rows, of each key the first unfinished one and, as far as there is
-- room, those right behind it. Needs the column and the indexes of sql/outbox/extensions/key_order.
-- A claim costs the same whatever waits: it looks at WINDOW due rows, the oldest. Where those are all behind others,
-- claim_ordered_by_key.sql goes on.
-- Why it is safe beside other relays: an older snapshot only ever sees an earlier row of a key as still unfinished, and
-- the lock on the first row, in the very version that the snapshot saw, is the right to the rows behind it.
-- Indexes: idx_openoutbox_processing_queue finds the window; idx_openoutbox_order_waiting the first row of a key and
-- those behind it; idx_openoutbox_order_dead what holds a key; TID scans lock and update.
-- Locks: the first rows, skipping those that somebody else holds, then all that it writes.
-- An event whose lease expired and that has one attempt left is claimed alone, as in claim.sql.
-- The LIMITs that are subqueries keep the planner from knowing them, so that it walks the indexes in order.
-- Parameters: window, limit, run (most rows behind a first one), block (a DEAD row holds its key), max_bytes,
-- max_attempts, relay_id. Result: rows in the window; the fields of OutboxEvent in their order, then the fence. One row
-- at least, with NULLs when nothing is claimed; the rows of a key are in order.
WITH looked AS MATERIALIZED (
    SELECT
        ctid AS tid,
        HASHTEXTEXTENDED(partition_key, 0) AS hash,
        insertion_order
    FROM openoutbox_events
    WHERE status = 'PENDING' AND available_at <= NOW()
    ORDER BY available_at, created_at
    LIMIT (SELECT %(window)s::bigint)
),

-- Of each key in the window one row may be its first unfinished one; a row without a key is first by itself.
firsts AS MATERIALIZED (
    SELECT *
    FROM (
        SELECT DISTINCT ON (hash) *
        FROM looked
        WHERE hash IS NOT NULL
        ORDER BY hash, insertion_order
    ) AS candidate
    WHERE
        insertion_order = (
            SELECT one.insertion_order
            FROM openoutbox_events AS one
            WHERE
                HASHTEXTEXTENDED(one.partition_key, 0) = candidate.hash
                AND one.status IN ('PENDING', 'DELIVERING')
                AND one.partition_key IS NOT NULL
            ORDER BY one.insertion_order
            LIMIT 1
        )
        AND COALESCE(NOT %(block)s::boolean OR insertion_order < (
            SELECT holding.insertion_order
            FROM openoutbox_events AS holding
            WHERE
                HASHTEXTEXTENDED(holding.partition_key, 0) = candidate.hash
                AND holding.status NOT IN ('PENDING', 'DELIVERING', 'DELIVERED')
                AND holding.partition_key IS NOT NULL
            ORDER BY holding.insertion_order
            LIMIT 1
        ), TRUE)
    UNION ALL
    SELECT * FROM looked
    WHERE hash IS NULL
),

locked AS MATERIALIZED (
    SELECT
        ctid AS tid,
        OCTET_LENGTH(payload) AS bytes,
        available_at,
        created_at,
        attempts + 1::bigint >= %(max_attempts)s::bigint AND STARTS_WITH(last_error, 'LEASE_EXPIRED:') AS alone
    FROM openoutbox_events
    WHERE
        ctid = ANY(ARRAY(SELECT firsts.tid FROM firsts))
        AND status = 'PENDING'
        AND available_at <= NOW()
    ORDER BY available_at, created_at
    LIMIT (SELECT %(limit)s::bigint)
    FOR UPDATE SKIP LOCKED
),

-- What was locked in the version that the snapshot saw: nobody has claimed of this key since.
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
                OCTET_LENGTH(payload) AS bytes,
                available_at,
                created_at,
                attempts + 1::bigint >= %(max_attempts)s::bigint
                AND STARTS_WITH(last_error, 'LEASE_EXPIRED:') AS alone,
                status = 'PENDING' AND available_at <= NOW() AND COALESCE(
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
    UPDATE openoutbox_events SET
        status = 'DELIVERING',
        locked_by = %(relay_id)s::text,
        locked_at = NOW(),
        updated_at = NOW()
    WHERE
        ctid = ANY(ARRAY(
            SELECT tid FROM summed
            WHERE turn = 1 OR (total <= %(max_bytes)s::bigint AND beside_alone IS NOT TRUE)
        ))
        AND status = 'PENDING'
    RETURNING
        event_id, event_type, partition_key, payload, headers, attempts, created_at, insertion_order, locked_at
)

SELECT
    seen.rows,
    event_id::text,
    event_type,
    partition_key,
    payload,
    headers::text,
    attempts,
    CASE
        WHEN ISFINITE(created_at) THEN GREATEST(DATE_PART('epoch', NOW() - created_at), 0) ELSE 0
    END AS age,
    locked_at
FROM (SELECT COUNT(*) AS rows FROM looked) AS seen
LEFT JOIN claimed ON TRUE
ORDER BY insertion_order
