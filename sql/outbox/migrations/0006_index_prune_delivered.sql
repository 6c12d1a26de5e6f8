-- 0006 creates: index prune_delivered
-- phase: pre (run before the relay that needs it) | breaking: no
-- Serves prune of delivered rows.
-- Locks: on a new table none; on a table that exists migrate adds CONCURRENTLY, so writers go on.
CREATE INDEX idx_openoutbox_prune_delivered ON openoutbox_events (delivered_at) WHERE status = 'DELIVERED';
