-- 0005 creates: index metrics_lag
-- phase: pre (run before the relay that needs it) | breaking: no
-- Serves the backlog's oldest age.
-- Locks: on a new table none; on a table that exists migrate adds CONCURRENTLY, so writers go on.
CREATE INDEX idx_openoutbox_metrics_lag ON openoutbox_events (status, created_at ASC) WHERE status = 'PENDING';
