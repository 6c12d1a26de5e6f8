-- name: months
-- Every monthly table of the schema, with its parent if it is attached, and whether a detach was begun and not ended.
SELECT
    child.relname AS partition,
    parent.relname AS parent,
    coalesce(link.inhdetachpending, false) AS pending
FROM pg_class AS child
LEFT JOIN pg_inherits AS link ON child.oid = link.inhrelid
LEFT JOIN pg_class AS parent ON link.inhparent = parent.oid
WHERE
    child.relnamespace = 'openoutbox_log'::regnamespace
    AND child.relkind = 'r'
    AND child.relname ~ '^(events|event_destinations|attempts)_[0-9]{4}_[0-9]{2}$'
ORDER BY child.relname;

-- name: ensure_months
-- Makes the partitions of every month that holds one of the instants. Needs the right to create tables in the schema.
-- Locks: the parents in SHARE UPDATE EXCLUSIVE mode, where something is missing.
SELECT openoutbox_log.ensure_month(month)
FROM unnest(%(months)s::timestamptz []) AS month;

-- name: lock_timeout
-- For the session that detaches: it gives up instead of queueing in front of writers.
SET lock_timeout = '10s';

-- name: detach
-- Takes a month out of its table while readers and writers go on. Outside a transaction only.
-- Locks: the parent in SHARE UPDATE EXCLUSIVE mode; waits for the readers of that month.
ALTER TABLE openoutbox_log.events DETACH PARTITION openoutbox_log.events_2000_01 CONCURRENTLY;

-- name: detach_finalize
-- Ends a detach that was interrupted.
ALTER TABLE openoutbox_log.events DETACH PARTITION openoutbox_log.events_2000_01 FINALIZE;

-- name: drop
-- Drops a month that was detached before: it has no readers left.
DROP TABLE IF EXISTS openoutbox_log.events_2000_01;
