-- PENDING -> DELIVERING in order per key, from key to key: what claim_ordered.sql does, where the oldest due rows are
-- all behind others and it would find nothing. It looks at the first rows of KEYS keys, in the order of their hashes
-- from FROM on, until it has found LIMIT of them due, and at the oldest rows without a key: one probe a key, however
-- many rows that has. What makes a claim in order safe is said there.
-- Indexes: idx_openoutbox_order_waiting finds the next key, its first row and those behind it; idx_openoutbox_order_dead
-- what holds a key; idx_openoutbox_order_keyless rows without a key; TID scans lock and update.
-- Locks: the first rows, skipping those that somebody else holds, then all that it writes.
-- Parameters: keys, from, limit, run, block, max_bytes, max_attempts, relay_id. Result: whether there is no key behind
-- those looked at, and the hash of the last one; the fields of OutboxEvent in their order, then the fence. One row at
-- least, with NULLs when nothing is claimed; the rows of a key are in order.
WITH RECURSIVE walked AS (
    (
        SELECT
            ctid AS tid,
            HASHTEXTEXTENDED(partition_key, 0) AS hash,
            insertion_order,
            status = 'PENDING' AND available_at <= NOW() AS due,
            1::bigint AS step,
            (status = 'PENDING' AND available_at <= NOW())::int::bigint AS found
        FROM openoutbox_events
        WHERE
            HASHTEXTEXTENDED(partition_key, 0) >= %(from)s::bigint
            AND status IN ('PENDING', 'DELIVERING')
            AND partition_key IS NOT NULL
        ORDER BY HASHTEXTEXTENDED(partition_key, 0), insertion_order
        LIMIT 1
    )
    UNION ALL
    SELECT
        later.tid,
        later.hash,
        later.insertion_order,
        later.due,
        walked.step + 1,
        walked.found + later.due::int
    FROM walked
    CROSS JOIN LATERAL (
        SELECT
            ctid AS tid,
            HASHTEXTEXTENDED(partition_key, 0) AS hash,
            insertion_order,
            status = 'PENDING' AND available_at <= NOW() AS due
        FROM openoutbox_events
        WHERE
            HASHTEXTEXTENDED(partition_key, 0) > walked.hash
            AND status IN ('PENDING', 'DELIVERING')
            AND partition_key IS NOT NULL
        ORDER BY HASHTEXTEXTENDED(partition_key, 0), insertion_order
        LIMIT 1
    ) AS later
    WHERE walked.step < %(keys)s::bigint AND walked.found < %(limit)s::bigint
),

keyless AS (
    SELECT
        ctid AS tid,
        NULL::bigint AS hash,
        insertion_order
    FROM openoutbox_events
    WHERE status = 'PENDING' AND available_at <= NOW() AND partition_key IS NULL
    ORDER BY available_at, created_at
    LIMIT (SELECT %(limit)s::bigint)
),

-- The rows that are due, unless a dead one holds them.
firsts AS MATERIALIZED (
    SELECT
        tid,
        hash,
        insertion_order
    FROM walked
    WHERE
        due
        AND COALESCE(NOT %(block)s::boolean OR insertion_order < (
            SELECT holding.insertion_order
            FROM openoutbox_events AS holding
            WHERE
                HASHTEXTEXTENDED(holding.partition_key, 0) = walked.hash
                AND holding.status NOT IN ('PENDING', 'DELIVERING', 'DELIVERED')
                AND holding.partition_key IS NOT NULL
            ORDER BY holding.insertion_order
            LIMIT 1
        ), TRUE)
    UNION ALL
    SELECT * FROM keyless
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
    seen.at_the_end,
    seen.last_hash,
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
FROM (
    SELECT
        (
            SELECT COALESCE(MAX(step) < %(keys)s::bigint AND MAX(found) < %(limit)s::bigint, TRUE) FROM walked
        ) AS at_the_end,
        (SELECT MAX(hash) FROM walked) AS last_hash
) AS seen
LEFT JOIN claimed ON TRUE
ORDER BY insertion_order
