-- Why events fail.

-- name: failing
-- Events that failed, grouped by type and error: of those that are dead, of those that wait for their next attempt, and of
-- those that are due, the newest (the next, the oldest) MOST. The error is the begin of last_error.
-- Indexes: idx_openoutbox_prune_dead and idx_openoutbox_processing_queue, three times MOST entries at most, after claim:guard in
-- its transaction. Locks: none. Parameters: most. Result: the fields of ErrorGroup; how many dead events were examined.
WITH failing AS (
    (
        SELECT
            event_id,
            event_type,
            partition_key,
            status,
            last_error,
            updated_at
        FROM openoutbox_events
        WHERE status = 'DEAD'
        ORDER BY updated_at DESC
        LIMIT (SELECT %(most)s::bigint)
    )
    UNION ALL
    (
        SELECT
            event_id,
            event_type,
            partition_key,
            status,
            last_error,
            updated_at
        FROM (
            (
                SELECT *
                FROM openoutbox_events
                WHERE status = 'PENDING' AND available_at > NOW()
                ORDER BY available_at ASC
                LIMIT (SELECT %(most)s::bigint)
            )
            UNION ALL
            (
                SELECT *
                FROM openoutbox_events
                WHERE status = 'PENDING' AND available_at <= NOW()
                ORDER BY available_at ASC
                LIMIT (SELECT %(most)s::bigint)
            )
        ) AS waiting
        WHERE attempts > 0
    )
)

SELECT
    event_type,
    LEFT(COALESCE(last_error, ''), 500) AS error,
    COUNT(*) FILTER (WHERE status = 'DEAD'),
    COUNT(*) FILTER (WHERE status = 'PENDING'),
    ARRAY_AGG(DISTINCT HASHTEXT(partition_key)) FILTER (WHERE partition_key IS NOT NULL),
    MIN(updated_at),
    MAX(updated_at),
    MAX(event_id::text),
    (SUM(COUNT(*) FILTER (WHERE status = 'DEAD')) OVER ())::bigint
FROM failing
GROUP BY event_type, error;
