-- Row-level security. The role's rights are in grants_read.sql and grants_append.sql; it has none on any partition, where
-- the policy would not hold.

-- name: policies
-- Lets roles other than the owner see and write only the rows of the tenant named by the setting eventstore.tenant; none
-- while it is unset. The rows of a subscription have no tenant: its name begins with the tenant's id and a slash.
-- Repeatable: a policy is dropped and created again in one transaction. Locks: these tables, exclusively, for an instant.
DO $$
DECLARE
    v_tenant CONSTANT TEXT := 'NULLIF(current_setting(''eventstore.tenant'', TRUE), '''')';
    v_table TEXT;
    v_rows TEXT;
BEGIN
    FOREACH v_table IN ARRAY ARRAY[
        'event', 'event_feed', 'event_id', 'event_tombstone', 'event_dropped_tenant',
        'event_subscription', 'event_subscription_member', 'event_subscription_slot', 'event_parked'
    ] LOOP
        IF v_table ~ '^event_(subscription|parked)' THEN
            v_rows := 'STARTS_WITH(Name, ' || v_tenant || ' || ''/'')';
        ELSE
            v_rows := 'TenantId = ' || v_tenant || '::UUID';
        END IF;
        EXECUTE pg_catalog.format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY', v_table);
        EXECUTE pg_catalog.format('DROP POLICY IF EXISTS tenant_isolation ON public.%I', v_table);
        EXECUTE pg_catalog.format('CREATE POLICY tenant_isolation ON public.%I USING (%s)', v_table, v_rows);
    END LOOP;
END
$$;
