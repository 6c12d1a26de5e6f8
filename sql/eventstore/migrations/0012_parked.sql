-- Migration 12: streams that a subscription has set aside, and how far it was before a reset.

-- name: subscription
-- ReplayUntil: the highest position before a reset; what is delivered up to it again is marked as replayed. Locks: the table,
-- exclusively, for an instant.
ALTER TABLE public.event_subscription ADD COLUMN ReplayUntil BIGINT NOT NULL DEFAULT 0;

-- name: parked
-- The streams that a subscription has set aside: the first event of each that was not applied, and why. The events behind
-- it are those of the stream from its position on, up to the subscription's checkpoint. Due: it is to be retried.
-- Locks: the new table; the subscriptions against writers, for an instant.
CREATE TABLE public.event_parked (
    Name TEXT NOT NULL,
    TenantId UUID NOT NULL,
    StreamId UUID NOT NULL,
    Position BIGINT NOT NULL,
    Version INT NOT NULL,
    Tries INT NOT NULL,
    Error TEXT NOT NULL,
    Due BOOLEAN NOT NULL DEFAULT FALSE,
    ParkedAt TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT pk_event_parked PRIMARY KEY (Name, TenantId, StreamId),
    CONSTRAINT fk_event_parked FOREIGN KEY (Name) REFERENCES public.event_subscription (Name) ON DELETE CASCADE
);

-- name: carry_over
-- Roles that keep subscriptions set streams aside too, roles that list subscriptions list these, and where tenants are
-- isolated they see those of their tenant only. Locks: the new table.
DO $$
DECLARE
    v_grant RECORD;
BEGIN
    IF (SELECT relrowsecurity FROM pg_catalog.pg_class WHERE oid = 'public.event_subscription'::REGCLASS) THEN
        ALTER TABLE public.event_parked ENABLE ROW LEVEL SECURITY;
        CREATE POLICY tenant_isolation ON public.event_parked
        USING (STARTS_WITH(Name, NULLIF(current_setting('eventstore.tenant', TRUE), '') || '/'));
    END IF;
    FOR v_grant IN
        SELECT
            CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS role,
            CASE privileges.privilege_type WHEN 'UPDATE' THEN 'SELECT, INSERT, UPDATE, DELETE' ELSE 'SELECT' END AS rights
        FROM pg_catalog.pg_class, aclexplode(relacl) AS privileges
        WHERE
            oid = 'public.event_subscription'::REGCLASS
            AND privileges.privilege_type IN ('UPDATE', 'SELECT') AND grantee <> relowner
    LOOP
        EXECUTE format('GRANT %s ON public.event_parked TO %s', v_grant.rights, v_grant.role);
    END LOOP;
END
$$;
