-- Optional, for ORDERING=key: finds the first unfinished event of a key, those behind it, and the next key.
-- A hash stands for the key, since an index takes no text above 2.7 kB; keys that share one are ordered as one.
-- Locks: none that a writer waits for. Safe to run again, unless a run before has left the index invalid: drop it then.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_openoutbox_order_waiting
ON openoutbox_events (HASHTEXTEXTENDED(partition_key, 0), insertion_order)
WHERE status IN ('PENDING', 'DELIVERING') AND partition_key IS NOT NULL;
