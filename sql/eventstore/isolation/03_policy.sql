-- The rows of the tenant named by the setting eventstore.tenant, to read and to write; none while it is unset.
-- Locks: the parent, exclusively, for an instant.
CREATE POLICY tenant_isolation ON public.event
USING (TenantId = NULLIF(current_setting('eventstore.tenant', TRUE), '')::UUID)
