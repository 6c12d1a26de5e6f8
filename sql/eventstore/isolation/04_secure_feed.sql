-- The same for the feed. Locks: the feed, exclusively, for an instant.
ALTER TABLE public.event_feed ENABLE ROW LEVEL SECURITY
