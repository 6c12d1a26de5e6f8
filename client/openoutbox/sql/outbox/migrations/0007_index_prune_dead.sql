-- 0007 creates: index prune_dead
-- phase: pre (run before the relay that needs it) | breaking: no
-- Serves prune and count of dead rows.
-- Locks: on a new table none; on a live one it is built CONCURRENTLY (tag live), so that writers go on.
CREATE INDEX --? !live
-- CREATE INDEX CONCURRENTLY --? live
idx_openoutbox_prune_dead ON openoutbox_events (updated_at) WHERE status = 'DEAD';
