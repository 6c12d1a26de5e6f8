-- The tables and indexes of the log. Partitions are created by ensure_month (definitions.sql). An index locks writes to
-- its table while it is built, and nothing where it exists.

-- name: events
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
) PARTITION BY RANGE (time);

-- name: event_destinations
-- Which destinations an event matched, one narrow row each, to list events by destination in order; an index on an
-- array column cannot do that. Its partitions event_destinations_YYYY_MM go with those of the events.
-- The key serves the listing of a tenant's destination.
CREATE TABLE IF NOT EXISTS openoutbox_log.event_destinations (
    tenant_id text COLLATE "C" NOT NULL,
    destination_id text COLLATE "C" NOT NULL,
    time timestamptz NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, destination_id, time, id)
) PARTITION BY RANGE (time);

-- name: attempts
-- One row per attempt, in monthly partitions attempts_YYYY_MM by its time, with its event embedded: read without a
-- join. An event_ column that may be null is null where it equals the attempt's own (the common case, at no cost):
-- the topic, the destination, and the matched destinations where that one is the only one.
CREATE TABLE IF NOT EXISTS openoutbox_log.attempts (
    id text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    destination_id text COLLATE "C" NOT NULL,
    destination_type text COLLATE "C" NOT NULL,
    topic text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    time timestamptz NOT NULL,
    attempt_number integer NOT NULL,
    manual boolean NOT NULL DEFAULT false,
    code text,
    response_data json,
    event_time timestamptz NOT NULL,
    eligible_for_retry boolean NOT NULL,
    event_data bytea NOT NULL,
    event_metadata jsonb NOT NULL,
    event_topic text,
    event_destination_id text,
    event_matched_destination_ids text [],
    PRIMARY KEY (time, id, tenant_id)
) PARTITION BY RANGE (time);

-- name: quarantine
-- Entries that could not be written, as ASCII JSON, and why, for an operator.
CREATE TABLE IF NOT EXISTS openoutbox_log.quarantine (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    quarantined_at timestamptz NOT NULL DEFAULT now(),
    reason text NOT NULL,
    entry text NOT NULL
);

-- name: idx_events_tenant_time
-- Serves: a tenant's events, newest first.
CREATE INDEX IF NOT EXISTS idx_events_tenant_time
ON openoutbox_log.events (tenant_id, time DESC, id DESC);

-- name: idx_events_tenant_topic_time
-- Serves: a tenant's events of a topic.
CREATE INDEX IF NOT EXISTS idx_events_tenant_topic_time
ON openoutbox_log.events (tenant_id, topic, time DESC, id DESC);

-- name: idx_events_topic_time
-- Serves: all tenants' events of a topic.
CREATE INDEX IF NOT EXISTS idx_events_topic_time
ON openoutbox_log.events (topic, time DESC, id DESC);

-- name: idx_events_id
-- Serves: one event by its id, looked for in the newest partition first.
CREATE INDEX IF NOT EXISTS idx_events_id
ON openoutbox_log.events (id, time DESC);

-- name: idx_event_destinations_time
-- Serves: all tenants' events of a destination.
CREATE INDEX IF NOT EXISTS idx_event_destinations_time
ON openoutbox_log.event_destinations (destination_id, time DESC, id DESC);

-- name: idx_attempts_tenant_time
-- Serves: a tenant's attempts, newest first.
CREATE INDEX IF NOT EXISTS idx_attempts_tenant_time
ON openoutbox_log.attempts (tenant_id, time DESC, id DESC);

-- name: idx_attempts_tenant_dest_time
-- Serves: a tenant's attempts to a destination.
CREATE INDEX IF NOT EXISTS idx_attempts_tenant_dest_time
ON openoutbox_log.attempts (tenant_id, destination_id, time DESC, id DESC);

-- name: idx_attempts_tenant_status_time
-- Serves: a tenant's failed or successful attempts.
CREATE INDEX IF NOT EXISTS idx_attempts_tenant_status_time
ON openoutbox_log.attempts (tenant_id, status, time DESC, id DESC);

-- name: idx_attempts_tenant_topic_time
-- Serves: a tenant's attempts of a topic.
CREATE INDEX IF NOT EXISTS idx_attempts_tenant_topic_time
ON openoutbox_log.attempts (tenant_id, topic, time DESC, id DESC);

-- name: idx_attempts_tenant_event_order
-- Serves: a tenant's attempts in the order of their events.
CREATE INDEX IF NOT EXISTS idx_attempts_tenant_event_order
ON openoutbox_log.attempts (tenant_id, event_time DESC, event_id DESC, time DESC, id DESC);

-- name: idx_attempts_dest_time
-- Serves: all tenants' attempts to a destination.
CREATE INDEX IF NOT EXISTS idx_attempts_dest_time
ON openoutbox_log.attempts (destination_id, time DESC, id DESC);

-- name: idx_attempts_type_time
-- Serves: attempts to a kind of destination.
CREATE INDEX IF NOT EXISTS idx_attempts_type_time
ON openoutbox_log.attempts (destination_type, time DESC, id DESC);

-- name: idx_attempts_status_time
-- Serves: all tenants' failed or successful attempts.
CREATE INDEX IF NOT EXISTS idx_attempts_status_time
ON openoutbox_log.attempts (status, time DESC, id DESC);

-- name: idx_attempts_topic_time
-- Serves: all tenants' attempts of a topic.
CREATE INDEX IF NOT EXISTS idx_attempts_topic_time
ON openoutbox_log.attempts (topic, time DESC, id DESC);

-- name: idx_attempts_event_time
-- Serves: the attempts of an event.
CREATE INDEX IF NOT EXISTS idx_attempts_event_time
ON openoutbox_log.attempts (event_id, time DESC, id DESC);

-- name: idx_attempts_event_order
-- Serves: all attempts in the order of their events.
CREATE INDEX IF NOT EXISTS idx_attempts_event_order
ON openoutbox_log.attempts (event_time DESC, event_id DESC, time DESC, id DESC);

-- name: idx_attempts_id
-- Serves: one attempt by its id, looked for in the newest partition first.
CREATE INDEX IF NOT EXISTS idx_attempts_id
ON openoutbox_log.attempts (id, time DESC);
