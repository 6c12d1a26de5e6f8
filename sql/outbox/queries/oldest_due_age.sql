-- The lag: the age in seconds of the oldest row that is due, 0 when none is.
-- Index: one probe of idx_openoutbox_processing_queue, however many rows are scheduled or backed off.
-- Locks: none.
SELECT CASE WHEN ISFINITE(due.since) THEN GREATEST(DATE_PART('epoch', NOW() - due.since), 0) ELSE 0 END
FROM (
    SELECT MIN(available_at) AS since
    FROM openoutbox_events
    WHERE status = 'PENDING' AND available_at <= NOW()
) AS due
