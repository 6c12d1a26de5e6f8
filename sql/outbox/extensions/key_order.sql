-- Optional, for ORDERING=key: a column and four indexes, in the order in which they are applied.

-- name: column
-- Optional, for ORDERING=key: the order of insertion, finer than created_at, also within one transaction.
-- An identity column: writers need no right on its sequence, and a plain INSERT stays as it is. Adding it rewrites
-- nothing. Rows that wait already are numbered by created_at, below all that come; rows that are DELIVERED already
-- share the number 0. Safe to run again.
-- Locks: the whole table, for as long as numbering the rows that wait takes.
DO $key_order$
BEGIN
    PERFORM insertion_order FROM openoutbox_events LIMIT 0;
EXCEPTION WHEN undefined_column THEN
    ALTER TABLE openoutbox_events ADD COLUMN insertion_order BIGINT NOT NULL DEFAULT 0;
    UPDATE openoutbox_events AS waiting SET insertion_order = numbered.place - numbered.total
    FROM (
        SELECT
            event_id,
            ROW_NUMBER() OVER (ORDER BY created_at, ctid) AS place,
            COUNT(*) OVER () AS total
        FROM openoutbox_events
        WHERE status <> 'DELIVERED'
    ) AS numbered
    WHERE waiting.event_id = numbered.event_id;
    ALTER TABLE openoutbox_events
        ALTER COLUMN insertion_order DROP DEFAULT,
        ALTER COLUMN insertion_order ADD GENERATED ALWAYS AS IDENTITY;
END
$key_order$;

-- name: index_order_waiting
-- Optional, for ORDERING=key: finds the first unfinished event of a key, those behind it, and the next key.
-- A hash stands for the key, since an index takes no text above 2.7 kB; keys that share one are ordered as one.
-- Locks: none that a writer waits for. Safe to run again, unless a run before has left the index invalid: drop it then.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_openoutbox_order_waiting
ON openoutbox_events (HASHTEXTEXTENDED(partition_key, 0), insertion_order)
WHERE status IN ('PENDING', 'DELIVERING') AND partition_key IS NOT NULL;

-- name: index_order_dead
-- Optional, for ORDERING=key with ORDERING_ON_DEAD=block: finds a dead event that holds its key.
-- The predicate says DEAD by what it is not, so that no statistics can talk the planner into idx_openoutbox_prune_dead
-- for the same question, which that would answer by reading every dead row.
-- Locks: none that a writer waits for. Safe to run again, unless a run before has left the index invalid: drop it then.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_openoutbox_order_dead
ON openoutbox_events (HASHTEXTEXTENDED(partition_key, 0), insertion_order)
WHERE status NOT IN ('PENDING', 'DELIVERING', 'DELIVERED') AND partition_key IS NOT NULL;

-- name: index_order_keyless
-- Optional, for ORDERING=key: finds due events without a key when the oldest due rows are all behind others.
-- Locks: none that a writer waits for. Safe to run again, unless a run before has left the index invalid: drop it then.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_openoutbox_order_keyless
ON openoutbox_events (available_at ASC, created_at ASC)
WHERE status = 'PENDING' AND partition_key IS NULL;

-- name: index_order_again
-- Optional, for ORDERING=key: finds what was inserted for later, has failed or was replayed, in its key. Nothing else may
-- appear among the events of a key that are finished, so claims need not look for others there.
-- The hash is inverted, so that no statistics can talk the planner into another index for the same question, or into this
-- one for another.
-- Locks: none that a writer waits for. Safe to run again, unless a run before has left the index invalid: drop it then.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_openoutbox_order_again
ON openoutbox_events ((~HASHTEXTEXTENDED(partition_key, 0)), insertion_order)
WHERE status IN ('PENDING', 'DELIVERING') AND partition_key IS NOT NULL AND available_at > created_at;
