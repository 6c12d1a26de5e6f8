-- Migration 7: subscriptions that several instances consume in parts. relay/eventstore/groups.py describes them.

-- name: subscription
-- LeaseSeconds: the length of the lease, by which a waiting instance measures it on a clock of its own. Grouped: the
-- positions and leases are those of the parts. Such a row has a holder that no instance is, until the year 9999: an
-- instance of an earlier release waits, and its reset is refused.
-- Locks: the table, exclusively, for an instant.
ALTER TABLE public.event_subscription
ADD COLUMN LeaseSeconds DOUBLE PRECISION,
ADD COLUMN Grouped BOOLEAN NOT NULL DEFAULT FALSE,
ADD CONSTRAINT check_grouped CHECK (
    NOT Grouped OR COALESCE(Holder = '00000000-0000-0000-0000-000000000000', FALSE)
);

-- name: member
-- The instances that consume a part: the lease of each, and the position that it has acknowledged.
-- Locks: the new table; the subscriptions against writers, for an instant.
CREATE TABLE public.event_subscription_member (
    Name TEXT NOT NULL,
    Holder UUID NOT NULL,
    Part INT NOT NULL,
    Parts INT NOT NULL,
    Position BIGINT NOT NULL,
    HeldUntil TIMESTAMPTZ NOT NULL,
    LeaseSeconds DOUBLE PRECISION NOT NULL,
    UpdatedAt TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT pk_event_subscription_member PRIMARY KEY (Name, Holder),
    CONSTRAINT fk_event_subscription_member FOREIGN KEY (Name)
    REFERENCES public.event_subscription (Name) ON DELETE CASCADE
);

-- name: slot
-- The 256 slots of a group. The position of a slot that a member holds is the higher one of the slot's and the member's.
-- Locks: the new table; the subscriptions against writers, for an instant.
CREATE TABLE public.event_subscription_slot (
    Name TEXT NOT NULL,
    Slot INT NOT NULL,
    Position BIGINT NOT NULL,
    Holder UUID,
    CONSTRAINT pk_event_subscription_slot PRIMARY KEY (Name, Slot),
    CONSTRAINT fk_event_subscription_slot FOREIGN KEY (Name)
    REFERENCES public.event_subscription (Name) ON DELETE CASCADE
);

-- name: carry_over
-- Roles that keep subscriptions keep groups too, and where tenants are isolated they see those of their tenant only.
-- Locks: the new tables.
DO $$
DECLARE
    v_role TEXT;
    v_table TEXT;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['event_subscription_member', 'event_subscription_slot'] LOOP
        IF (SELECT relrowsecurity FROM pg_catalog.pg_class WHERE oid = 'public.event_subscription'::REGCLASS) THEN
            EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY', v_table);
            EXECUTE format(
                'CREATE POLICY tenant_isolation ON public.%I '
                'USING (STARTS_WITH(Name, NULLIF(current_setting(''eventstore.tenant'', TRUE), '''') || ''/''))',
                v_table
            );
        END IF;
        FOR v_role IN
            SELECT CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END
            FROM pg_catalog.pg_class, aclexplode(relacl) AS privileges
            WHERE
                oid = 'public.event_subscription'::REGCLASS
                AND privileges.privilege_type = 'UPDATE' AND grantee <> relowner
        LOOP
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON public.%I TO %s', v_table, v_role);
        END LOOP;
    END LOOP;
END
$$;
