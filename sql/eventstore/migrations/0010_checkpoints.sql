-- Migration 10: checkpoints that name the event that was read.

-- name: subscription
-- LastRead: the event at Position, as Checkpoint writes it; it begins with its position. Another release that moves Position leaves it
-- as it is: then it has another position and does not count. Locks: the table, exclusively, for an instant.
ALTER TABLE public.event_subscription ADD COLUMN LastRead TEXT;

-- name: member
-- The same for the members of groups. Locks: the table, exclusively, for an instant.
ALTER TABLE public.event_subscription_member ADD COLUMN LastRead TEXT;

-- name: slot
-- The same for their slots. Locks: the table, exclusively, for an instant.
ALTER TABLE public.event_subscription_slot ADD COLUMN LastRead TEXT;

-- name: dropped
-- The newest position of each tenant that was dropped: up to it, a missing event of that tenant does not mean that the store went
-- back. Locks: the new table.
CREATE TABLE public.event_dropped_tenant (
    TenantId UUID NOT NULL,
    Position BIGINT NOT NULL,
    DroppedAt TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT pk_event_dropped_tenant PRIMARY KEY (TenantId)
);

-- name: isolate_dropped
-- The policy of isolation.sql, in a store whose tenants are isolated already. Locks: the new table.
DO $$
BEGIN
    IF (SELECT relrowsecurity FROM pg_catalog.pg_class WHERE oid = 'public.event'::REGCLASS) THEN
        ALTER TABLE public.event_dropped_tenant ENABLE ROW LEVEL SECURITY;
        CREATE POLICY tenant_isolation ON public.event_dropped_tenant
        USING (TenantId = NULLIF(current_setting('eventstore.tenant', TRUE), '')::UUID);
    END IF;
END
$$;
