-- Row-level security and the rights of a tenant's role, in the order in which they are applied.

-- name: secure_event
-- Lets roles other than the owner see only the rows that a policy names. Locks: the parent, exclusively, for an instant.
ALTER TABLE public.event ENABLE ROW LEVEL SECURITY;

-- name: drop_policy
-- Drops the policy, to be created again in the same transaction. Locks: the parent, exclusively, for an instant.
DROP POLICY IF EXISTS tenant_isolation ON public.event;

-- name: policy
-- The rows of the tenant named by the setting eventstore.tenant, to read and to write; none while it is unset.
-- Locks: the parent, exclusively, for an instant.
CREATE POLICY tenant_isolation ON public.event
USING (TenantId = NULLIF(current_setting('eventstore.tenant', TRUE), '')::UUID);

-- name: secure_feed
-- The same for the feed. Locks: the feed, exclusively, for an instant.
ALTER TABLE public.event_feed ENABLE ROW LEVEL SECURITY;

-- name: drop_feed_policy
-- Drops the feed's policy, to be created again in the same transaction. Locks: the feed, exclusively, for an instant.
DROP POLICY IF EXISTS tenant_isolation ON public.event_feed;

-- name: feed_policy
-- The feed's rows of the tenant named by the setting. Locks: the feed, exclusively, for an instant.
CREATE POLICY tenant_isolation ON public.event_feed
USING (TenantId = NULLIF(current_setting('eventstore.tenant', TRUE), '')::UUID);

-- name: grant_schema
-- What the role needs: to see the schema.
GRANT USAGE ON SCHEMA public TO app_role;

-- name: grant_event
-- What the role needs: to read and append through the parent. It has no right on any partition, where the policy would
-- not hold.
GRANT SELECT, INSERT ON public.event TO app_role;

-- name: grant_feed
-- What the role needs: to read the feed and the store's settings.
GRANT SELECT ON public.event_feed, public.event_store TO app_role;

-- name: grant_positions
-- What the role needs of positions. Tags: gapless (to read how far they have committed) or settled (to draw them and to
-- see the last one drawn).
GRANT SELECT ON public.event_position TO app_role; --? gapless
-- GRANT SELECT, USAGE ON SEQUENCE public.event_sequencenum_seq TO app_role; --? settled
