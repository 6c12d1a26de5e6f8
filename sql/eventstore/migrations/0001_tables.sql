-- Migration 1: the tables of every store, in the order in which they are created.

-- name: event
-- The events of all tenants, one partition a tenant (list partitioning; event_tenants and its buckets lie between).
-- Locks: the new table.
CREATE TABLE IF NOT EXISTS public.Event (
    SequenceNum BIGINT NOT NULL,
    TenantId UUID NOT NULL,
    StreamId UUID NOT NULL,
    Version INT NOT NULL,
    Type TEXT NOT NULL,
    Meta JSONB NOT NULL,
    Data JSONB,
    LogDate TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT pk_event_sequencenum PRIMARY KEY (TenantId, SequenceNum),
    CONSTRAINT uk_event_streamid_version UNIQUE (TenantId, StreamId, Version)
) PARTITION BY LIST (TenantId);

-- name: tenants
-- Every tenant goes to one of the buckets below this partition.
-- Without them each provisioning makes every session rebuild its list of all partitions: 70 ms at 10,000 tenants.
-- Locks: the parent, exclusively, while it is created; no tenant exists yet.
CREATE TABLE IF NOT EXISTS public.event_tenants PARTITION OF public.event DEFAULT PARTITION BY HASH (TenantId);

-- name: buckets
-- The 64 buckets that hold the tenants' partitions, so that adding one touches a 64th of them.
-- Locks: the parents, exclusively, while they are created; no tenant exists yet.
DO $$
BEGIN
    FOR bucket IN 0..63 LOOP
        EXECUTE format(
            'CREATE TABLE IF NOT EXISTS public.event_tenants_%s PARTITION OF public.event_tenants '
            'FOR VALUES WITH (MODULUS 64, REMAINDER %s) PARTITION BY LIST (TenantId)',
            to_char(bucket, 'FM00'), bucket
        );
    END LOOP;
END
$$;

-- name: feed
-- The narrow, unpartitioned list of all events in position order: what a reader of all tenants scans, because
-- planning a scan of 10,000 partitions takes seconds and more locks than a server has.
-- Locks: the new table.
CREATE TABLE IF NOT EXISTS public.event_feed (
    SequenceNum BIGINT NOT NULL,
    TenantId UUID NOT NULL,
    StreamId UUID NOT NULL,
    Version INT NOT NULL,
    Type TEXT NOT NULL,
    CONSTRAINT pk_event_feed PRIMARY KEY (SequenceNum)
);

-- name: subscription
-- Durable subscriptions: the checkpoint of each, its active instance, and until when that one holds the lease.
-- Locks: the new table.
CREATE TABLE IF NOT EXISTS public.event_subscription (
    Name TEXT NOT NULL,
    Position BIGINT NOT NULL,
    Holder UUID,
    HeldUntil TIMESTAMPTZ,
    UpdatedAt TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT pk_event_subscription PRIMARY KEY (Name)
);

-- name: settings
-- What was chosen when the store was created: one row.
-- Locks: the new table.
CREATE TABLE IF NOT EXISTS public.event_store (
    OnlyRow BOOLEAN NOT NULL DEFAULT TRUE,
    Positions TEXT NOT NULL,
    Notify BOOLEAN NOT NULL,
    CONSTRAINT pk_event_store PRIMARY KEY (OnlyRow),
    CONSTRAINT check_only_row CHECK (OnlyRow),
    CONSTRAINT check_positions CHECK (Positions IN ('gapless', 'settled'))
);
