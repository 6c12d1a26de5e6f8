-- 0004 creates: index metrics_count
-- phase: pre (run before the relay that needs it) | breaking: no
-- Serves the backlog's count, new and retrying.
-- Locks: on a new table none; on a live one it is built CONCURRENTLY (tag live), so that writers go on.
CREATE INDEX --? !live
-- CREATE INDEX CONCURRENTLY --? live
idx_openoutbox_metrics_count ON openoutbox_events (status) INCLUDE (attempts) WHERE status = 'PENDING';
