-- Drops a detached partition for good. Locks: that table, which nobody uses any more.
DROP TABLE public.event_00000000000000000000000000000000
