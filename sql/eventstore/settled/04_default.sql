-- A plain INSERT gets its position by default. Locks: the parent, exclusively, for an instant.
ALTER TABLE public.event ALTER COLUMN SequenceNum SET DEFAULT public.event_next_position()
