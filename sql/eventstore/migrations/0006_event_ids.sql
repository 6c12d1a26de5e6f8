-- Migration 6: the ids that applications give to events, so that a repeated append writes nothing twice.

-- name: ids
-- The id of each event that has one: unique within its stream, where its appends queue. Beside the table of events,
-- whose columns are published, and empty unless an application uses ids. Locks: the new table.
CREATE TABLE public.event_id (
    TenantId UUID NOT NULL,
    StreamId UUID NOT NULL,
    EventId UUID NOT NULL,
    Version INT NOT NULL,
    CONSTRAINT pk_event_id PRIMARY KEY (TenantId, StreamId, EventId),
    CONSTRAINT uk_event_id_version UNIQUE (TenantId, StreamId, Version)
);

-- name: isolate_ids
-- The policy of isolation.sql, in a store whose tenants are isolated already. Locks: the new table.
DO $$
BEGIN
    IF (SELECT relrowsecurity FROM pg_catalog.pg_class WHERE oid = 'public.event'::REGCLASS) THEN
        ALTER TABLE public.event_id ENABLE ROW LEVEL SECURITY;
        CREATE POLICY tenant_isolation ON public.event_id
        USING (TenantId = NULLIF(current_setting('eventstore.tenant', TRUE), '')::UUID);
    END IF;
END
$$;
