-- PENDING -> DELIVERING in order per key: lease due rows, of each key the first unfinished one and, as far as there is
-- room, those right behind it. Needs the column and the indexes of sql/outbox/extensions/key_order.
-- A claim costs the same whatever waits. It either looks at WINDOW due rows, the oldest (with KEYS = 0); or, where
-- those are all behind others, at the first rows of KEYS keys, in the order of their hashes from FROM on, until it has
-- found LIMIT of them due, and at the oldest rows without a key (with WINDOW = 0).
-- Why it is safe beside other relays: an older snapshot only ever sees an earlier row of a key as still unfinished, and
-- the lock on the first row, in the very version that the snapshot saw, is the right to the rows behind it.
-- Indexes: idx_openoutbox_processing_queue finds the window; idx_openoutbox_order_waiting the next key, its first row
-- and those behind it; idx_openoutbox_order_dead what holds a key; idx_openoutbox_order_keyless rows without a key; TID
-- scans lock and update. Locks: the first rows, skipping those that somebody else holds, then all that it writes.
-- An event whose lease expired and that has one attempt left is claimed alone, as in claim.sql.
-- The LIMITs that are subqueries keep the planner from knowing them, so that it walks the indexes in order.
-- Parameters: window, keys, from, limit, run (most rows behind a first one), block (a DEAD row holds its key),
-- max_bytes, max_attempts, relay_id. Result: rows in the window; whether there is no key behind those looked at, and
-- the hash of the last one; the fields of OutboxEvent in their order, then the fence. One row at least, with NULLs when
-- nothing is claimed; the rows of a key are in order.
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
        LIMIT (SELECT LEAST(%(keys)s::bigint, 1))
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

looked AS MATERIALIZED (
    SELECT
        ctid AS tid,
        HASHTEXTEXTENDED(partition_key, 0) AS hash,
        insertion_order,
        partition_key IS NULL AS known_first
    FROM openoutbox_events
    WHERE status = 'PENDING' AND available_at <= NOW()
    ORDER BY available_at, created_at
    LIMIT (SELECT %(window)s::bigint)
),

keyless AS MATERIALIZED (
    SELECT
        ctid AS tid,
        NULL::bigint AS hash,
        insertion_order,
        TRUE AS known_first
    FROM openoutbox_events
    WHERE status = 'PENDING' AND available_at <= NOW() AND partition_key IS NULL
    ORDER BY available_at, created_at
    LIMIT (SELECT LEAST(%(keys)s::bigint, %(limit)s::bigint))
),

candidates AS (
    SELECT * FROM looked
    UNION ALL
    SELECT * FROM keyless
    UNION ALL
    SELECT tid, hash, insertion_order, TRUE AS known_first FROM walked WHERE due
),

-- Of each key the first unfinished row, unless a dead one holds it. A row without a key is first by itself.
firsts AS MATERIALIZED (
    SELECT *
    FROM candidates
    WHERE
        (
            known_first
            OR insertion_order = (
                SELECT earliest.insertion_order
                FROM openoutbox_events AS earliest
                WHERE
                    HASHTEXTEXTENDED(earliest.partition_key, 0) = candidates.hash
                    AND earliest.status IN ('PENDING', 'DELIVERING')
                    AND earliest.partition_key IS NOT NULL
                ORDER BY earliest.insertion_order
                LIMIT 1
            )
        )
        AND (
            hash IS NULL
            OR COALESCE(NOT %(block)s::boolean OR insertion_order < (
                SELECT holding.insertion_order
                FROM openoutbox_events AS holding
                WHERE
                    HASHTEXTEXTENDED(holding.partition_key, 0) = candidates.hash
                    AND holding.status NOT IN ('PENDING', 'DELIVERING', 'DELIVERED')
                    AND holding.partition_key IS NOT NULL
                ORDER BY holding.insertion_order
                LIMIT 1
            ), TRUE)
        )
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
            LIMIT (SELECT LEAST(%(run)s::bigint, %(limit)s::bigint / GREATEST(COUNT(*), 1) - 1) FROM heads)
        ) AS run
        WINDOW in_order AS (ORDER BY run.insertion_order ROWS UNBOUNDED PRECEDING)
    ) AS behind
    WHERE behind.unbroken
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
    seen.at_the_end,
    seen.last_hash,
    claimed.event_id::text,
    claimed.event_type,
    claimed.partition_key,
    claimed.payload,
    claimed.headers::text,
    claimed.attempts,
    CASE
        WHEN ISFINITE(claimed.created_at) THEN GREATEST(DATE_PART('epoch', NOW() - claimed.created_at), 0) ELSE 0
    END AS age,
    claimed.locked_at
FROM (
    SELECT
        (SELECT COUNT(*) FROM looked) AS rows,
        (
            SELECT COALESCE(MAX(step) < %(keys)s::bigint AND MAX(found) < %(limit)s::bigint, TRUE) FROM walked
        ) AS at_the_end,
        (SELECT MAX(hash) FROM walked) AS last_hash
) AS seen
LEFT JOIN claimed ON TRUE
ORDER BY claimed.insertion_order
