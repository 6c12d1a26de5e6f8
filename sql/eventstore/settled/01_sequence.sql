-- Positions in the order in which they are asked for, with a gap for each that was not used. No cache: a session that
-- keeps numbers back would break the horizon. Locks: the new sequence.
CREATE SEQUENCE IF NOT EXISTS public.event_sequencenum_seq AS BIGINT CACHE 1 OWNED BY public.event.SequenceNum
