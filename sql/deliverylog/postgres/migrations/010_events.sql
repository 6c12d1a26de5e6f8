-- One row per event that was handed to the relay, in monthly partitions events_YYYY_MM by its time.
-- The key holds the tenant: two tenants may use one id. It also serves the listing of all tenants.
-- Locks: nothing, where the table exists.
CREATE TABLE IF NOT EXISTS openoutbox_log.events (
    id text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    destination_id text COLLATE "C" NOT NULL,
    matched_destination_ids text [] NOT NULL,
    time timestamptz NOT NULL,
    topic text COLLATE "C" NOT NULL,
    eligible_for_retry boolean NOT NULL,
    data bytea NOT NULL,
    metadata jsonb NOT NULL,
    PRIMARY KEY (time, id, tenant_id)
) PARTITION BY RANGE (time)
