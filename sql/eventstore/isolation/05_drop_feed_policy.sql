-- Makes way for 06, in the same transaction. Locks: the feed, exclusively, for an instant.
DROP POLICY IF EXISTS tenant_isolation ON public.event_feed
