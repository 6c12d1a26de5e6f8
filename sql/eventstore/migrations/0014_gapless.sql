-- Migration 14: a counter that is found at once while old snapshots keep its former versions.

-- name: part
-- Part: the position over 256. The key of the one row moves on with it, so a search from the highest key on meets at most
-- the versions of the newest 256 positions. Locks: the counter, exclusively, for an instant.
ALTER TABLE public.event_position
DROP CONSTRAINT pk_event_position,
ADD COLUMN Part BIGINT NOT NULL DEFAULT 0,
ADD CONSTRAINT pk_event_position PRIMARY KEY (Part);
