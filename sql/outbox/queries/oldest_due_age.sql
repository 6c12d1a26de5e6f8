-- The lag: the age in seconds of the oldest row that is due, 0 when none is.
-- Index: one probe of idx_openoutbox_processing_queue, however many rows are scheduled or backed off; with
-- claim_guard.sql in its transaction also where the planner believes that nothing waits, and would read all that does.
-- Locks: none.
SELECT CASE WHEN ISFINITE(due.since) THEN GREATEST(DATE_PART('epoch', NOW() - due.since), 0) ELSE 0 END
FROM (
    SELECT (
        SELECT available_at
        FROM openoutbox_events
        WHERE status = 'PENDING' AND available_at <= NOW()
        ORDER BY available_at
        LIMIT (SELECT 1)
    ) AS since
) AS due
