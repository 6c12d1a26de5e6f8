-- Optional, for ORDERING=key with ORDERING_ON_DEAD=block: finds a dead event that holds its key.
-- Locks: none that a writer waits for. Safe to run again, unless a run before has left the index invalid: drop it then.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_openoutbox_order_dead
ON openoutbox_events (HASHTEXTEXTENDED(partition_key, 0), insertion_order)
WHERE status = 'DEAD' AND partition_key IS NOT NULL;
