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
)
