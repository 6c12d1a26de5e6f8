-- Makes way for 03, in the same transaction. Locks: the parent, exclusively, for an instant.
DROP POLICY IF EXISTS tenant_isolation ON public.event
