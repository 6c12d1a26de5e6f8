-- Optional, for ORDERING=key with ORDERING_ON_DEAD=block: finds a dead event that holds its key.
-- The predicate says DEAD by what it is not, so that no statistics can talk the planner into idx_openoutbox_prune_dead
-- for the same question, which that would answer by reading every dead row.
-- Locks: none that a writer waits for. Safe to run again, unless a run before has left the index invalid: drop it then.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_openoutbox_order_dead
ON openoutbox_events (HASHTEXTEXTENDED(partition_key, 0), insertion_order)
WHERE status NOT IN ('PENDING', 'DELIVERING', 'DELIVERED') AND partition_key IS NOT NULL;
