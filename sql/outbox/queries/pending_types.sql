-- The event types among the first SAMPLE events that wait, oldest first, for the check whether each has a destination.
-- Index: idx_openoutbox_metrics_lag, SAMPLE entries at most. Locks: none. Parameters: sample.
SELECT DISTINCT event_type
FROM (
    SELECT event_type
    FROM openoutbox_events
    WHERE status = 'PENDING'
    ORDER BY created_at
    LIMIT %(sample)s::bigint
) AS waiting
ORDER BY event_type
