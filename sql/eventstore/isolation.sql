-- Row-level security, in the order in which it is applied. The role's rights are in grants_read.sql and
-- grants_append.sql; it has none on any partition, where the policy would not hold.

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

-- name: secure_subscription
-- The same for subscriptions. Locks: the subscriptions, exclusively, for an instant.
ALTER TABLE public.event_subscription ENABLE ROW LEVEL SECURITY;

-- name: drop_subscription_policy
-- Drops their policy, to be created again in the same transaction. Locks: the subscriptions, exclusively, for an instant.
DROP POLICY IF EXISTS tenant_isolation ON public.event_subscription;

-- name: subscription_policy
-- The subscriptions whose names begin with the tenant named by the setting and a slash.
-- Locks: the subscriptions, exclusively, for an instant.
CREATE POLICY tenant_isolation ON public.event_subscription
USING (STARTS_WITH(Name, NULLIF(current_setting('eventstore.tenant', TRUE), '') || '/'));

-- name: secure_ids
-- The same for the ids of events. Locks: the ids, exclusively, for an instant.
ALTER TABLE public.event_id ENABLE ROW LEVEL SECURITY;

-- name: drop_ids_policy
-- Drops their policy, to be created again in the same transaction. Locks: the ids, exclusively, for an instant.
DROP POLICY IF EXISTS tenant_isolation ON public.event_id;

-- name: ids_policy
-- The ids of the tenant named by the setting. Locks: the ids, exclusively, for an instant.
CREATE POLICY tenant_isolation ON public.event_id
USING (TenantId = NULLIF(current_setting('eventstore.tenant', TRUE), '')::UUID);

-- name: secure_tombstones
-- The same for deleted streams. Locks: their table, exclusively, for an instant.
ALTER TABLE public.event_tombstone ENABLE ROW LEVEL SECURITY;

-- name: drop_tombstones_policy
-- Drops their policy, to be created again in the same transaction. Locks: their table, exclusively, for an instant.
DROP POLICY IF EXISTS tenant_isolation ON public.event_tombstone;

-- name: tombstones_policy
-- The deleted streams of the tenant named by the setting. Locks: their table, exclusively, for an instant.
CREATE POLICY tenant_isolation ON public.event_tombstone
USING (TenantId = NULLIF(current_setting('eventstore.tenant', TRUE), '')::UUID);

-- name: secure_dropped
-- The same for dropped tenants. Locks: their table, exclusively, for an instant.
ALTER TABLE public.event_dropped_tenant ENABLE ROW LEVEL SECURITY;

-- name: drop_dropped_policy
-- Drops their policy, to be created again in the same transaction. Locks: their table, exclusively, for an instant.
DROP POLICY IF EXISTS tenant_isolation ON public.event_dropped_tenant;

-- name: dropped_policy
-- The tenant named by the setting, if it was dropped. Locks: their table, exclusively, for an instant.
CREATE POLICY tenant_isolation ON public.event_dropped_tenant
USING (TenantId = NULLIF(current_setting('eventstore.tenant', TRUE), '')::UUID);

-- name: secure_member
-- The same for the members of groups. Locks: these, exclusively, for an instant.
ALTER TABLE public.event_subscription_member ENABLE ROW LEVEL SECURITY;

-- name: drop_member_policy
-- Drops their policy, to be created again in the same transaction. Locks: these, exclusively, for an instant.
DROP POLICY IF EXISTS tenant_isolation ON public.event_subscription_member;

-- name: member_policy
-- The members of groups of those subscriptions. Locks: these, exclusively, for an instant.
CREATE POLICY tenant_isolation ON public.event_subscription_member
USING (STARTS_WITH(Name, NULLIF(current_setting('eventstore.tenant', TRUE), '') || '/'));

-- name: secure_slot
-- The same for the slots of groups. Locks: these, exclusively, for an instant.
ALTER TABLE public.event_subscription_slot ENABLE ROW LEVEL SECURITY;

-- name: drop_slot_policy
-- Drops their policy, to be created again in the same transaction. Locks: these, exclusively, for an instant.
DROP POLICY IF EXISTS tenant_isolation ON public.event_subscription_slot;

-- name: slot_policy
-- The slots of groups of those subscriptions. Locks: these, exclusively, for an instant.
CREATE POLICY tenant_isolation ON public.event_subscription_slot
USING (STARTS_WITH(Name, NULLIF(current_setting('eventstore.tenant', TRUE), '') || '/'));

-- name: secure_parked
-- The same for streams that were set aside. Locks: their table, exclusively, for an instant.
ALTER TABLE public.event_parked ENABLE ROW LEVEL SECURITY;

-- name: drop_parked_policy
-- Drops their policy, to be created again in the same transaction. Locks: their table, exclusively, for an instant.
DROP POLICY IF EXISTS tenant_isolation ON public.event_parked;

-- name: parked_policy
-- The streams that those subscriptions have set aside. Locks: their table, exclusively, for an instant.
CREATE POLICY tenant_isolation ON public.event_parked
USING (STARTS_WITH(Name, NULLIF(current_setting('eventstore.tenant', TRUE), '') || '/'));
