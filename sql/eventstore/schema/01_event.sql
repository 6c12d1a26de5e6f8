-- The events of all tenants, one partition a tenant (list partitioning; see 02 and 03 for what lies between).
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
) PARTITION BY LIST (TenantId)
