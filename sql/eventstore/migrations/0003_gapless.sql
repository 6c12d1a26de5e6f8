-- Migration 3: what makes the counter of a gapless store refuse a position that it did not assign.

-- name: taken
-- The transaction that took positions last, and the newest position before it took its first. Locks: the counter,
-- exclusively, for an instant.
ALTER TABLE public.event_position
ADD COLUMN Since BIGINT NOT NULL DEFAULT 0,
ADD COLUMN TakenBy XID8;
