-- The schema of the log, in the order in which relay-cli log migrate creates it, in one transaction. All of it may run
-- again. An index locks writes to its table while it is built, and nothing where it exists.

-- name: lock
-- One process at a time changes the schema; the lock ends with the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('openoutbox_log.migrate', 0));

-- name: schema
-- The schema that holds the delivery log; the log owns everything in it.
-- Locks: nothing but the name.
CREATE SCHEMA IF NOT EXISTS openoutbox_log;

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

-- name: idx_quarantine_entry
-- Serves: quarantining an entry once, also when its batch is written again.
CREATE INDEX IF NOT EXISTS idx_quarantine_entry ON openoutbox_log.quarantine (md5(entry));

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

-- name: ensure_month
-- Gives the three partitioned tables their partition for the UTC month that holds an instant.
-- Made apart and then attached: ATTACH lets readers and writers of the parent go on (SHARE UPDATE EXCLUSIVE), which
-- CREATE TABLE ... PARTITION OF does not. There is no DEFAULT partition: every query would read it, and DETACH
-- CONCURRENTLY would be refused. Two callers at once: the second waits and finds it done.
CREATE OR REPLACE FUNCTION openoutbox_log.ensure_month(instant timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    parent regclass;
    partition text;
    first timestamp := date_trunc('month', instant AT TIME ZONE 'UTC');
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('openoutbox_log.ensure_month', 0));
    FOREACH parent IN ARRAY ARRAY[
        'openoutbox_log.events', 'openoutbox_log.event_destinations', 'openoutbox_log.attempts'
    ]::regclass[] LOOP
        SELECT format('%I.%I', n.nspname, c.relname || to_char(first, '_YYYY_MM')) INTO partition
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = parent;
        IF to_regclass(partition) IS NULL THEN
            EXECUTE format('CREATE TABLE %s (LIKE %s INCLUDING ALL)', partition, parent);
            EXECUTE format(
                'ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)', parent, partition,
                first AT TIME ZONE 'UTC', (first + interval '1 month') AT TIME ZONE 'UTC'
            );
        END IF;
    END LOOP;
END
$$;
