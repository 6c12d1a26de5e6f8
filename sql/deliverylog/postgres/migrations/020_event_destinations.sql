-- Which destinations an event matched, one narrow row each, to list events by destination in order; an index on an
-- array column cannot do that. Its partitions event_destinations_YYYY_MM go with those of the events.
-- The key serves the listing of a tenant's destination.
CREATE TABLE IF NOT EXISTS openoutbox_log.event_destinations (
    tenant_id text COLLATE "C" NOT NULL,
    destination_id text COLLATE "C" NOT NULL,
    time timestamptz NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, destination_id, time, id)
) PARTITION BY RANGE (time)
