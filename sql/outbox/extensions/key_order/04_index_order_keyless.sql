-- Optional, for ORDERING=key: finds due events without a key when the oldest due rows are all behind others.
-- Locks: none that a writer waits for. Safe to run again, unless a run before has left the index invalid: drop it then.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_openoutbox_order_keyless
ON openoutbox_events (available_at ASC, created_at ASC)
WHERE status = 'PENDING' AND partition_key IS NULL;
