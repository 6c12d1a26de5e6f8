-- Migration 8: what a deleted stream leaves behind.

-- name: tombstones
-- The last deleted version of each deleted stream: a stream of the same id continues after it, so that no version from
-- before the deletion is expected with success. Locks: the new table.
CREATE TABLE public.event_tombstone (
    TenantId UUID NOT NULL,
    StreamId UUID NOT NULL,
    Version INT NOT NULL,
    DeletedAt TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT pk_event_tombstone PRIMARY KEY (TenantId, StreamId)
);

-- name: isolate_tombstones
-- The policy of isolation.sql, in a store whose tenants are isolated already. Locks: the new table.
DO $$
BEGIN
    IF (SELECT relrowsecurity FROM pg_catalog.pg_class WHERE oid = 'public.event'::REGCLASS) THEN
        ALTER TABLE public.event_tombstone ENABLE ROW LEVEL SECURITY;
        CREATE POLICY tenant_isolation ON public.event_tombstone
        USING (TenantId = NULLIF(current_setting('eventstore.tenant', TRUE), '')::UUID);
    END IF;
END
$$;
