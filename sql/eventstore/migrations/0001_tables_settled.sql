-- Migration 1: the sequence of a settled store.

-- name: sequence
-- Positions in the order in which they are drawn, with a gap for each unused one. No cache: a session that
-- caches numbers would break the horizon. Locks: the new sequence.
CREATE SEQUENCE IF NOT EXISTS public.event_sequencenum_seq AS BIGINT CACHE 1 OWNED BY public.event.SequenceNum;
