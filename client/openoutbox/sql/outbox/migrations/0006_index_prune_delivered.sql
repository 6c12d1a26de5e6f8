-- 0006 creates: index prune_delivered
-- phase: pre (run before the relay that needs it) | breaking: no
-- Serves prune of delivered rows.
-- Locks: on a new table none; on a live one it is built CONCURRENTLY (tag live), so that writers go on.
CREATE INDEX --? !live
-- CREATE INDEX CONCURRENTLY --? live
idx_openoutbox_prune_delivered ON openoutbox_events (delivered_at) WHERE status = 'DELIVERED';
