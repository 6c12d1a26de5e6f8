-- The feed's rows of the tenant named by the setting. Locks: the feed, exclusively, for an instant.
CREATE POLICY tenant_isolation ON public.event_feed
USING (TenantId = NULLIF(current_setting('eventstore.tenant', TRUE), '')::UUID)
