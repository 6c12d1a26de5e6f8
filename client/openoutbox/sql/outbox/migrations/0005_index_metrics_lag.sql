-- 0005 creates: index metrics_lag
-- phase: pre (run before the relay that needs it) | breaking: no
-- Serves the backlog's oldest age.
-- Locks: on a new table none; on a live one it is built CONCURRENTLY (tag live), so that writers go on.
CREATE INDEX --? !live
-- CREATE INDEX CONCURRENTLY --? live
idx_openoutbox_metrics_lag ON openoutbox_events (status, created_at ASC) WHERE status = 'PENDING';
