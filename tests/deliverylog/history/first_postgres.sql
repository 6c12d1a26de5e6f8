-- The log that commit 0d5d384 created in PostgreSQL: the state before versions were recorded.

CREATE SCHEMA IF NOT EXISTS openoutbox_log;

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

CREATE TABLE IF NOT EXISTS openoutbox_log.event_destinations (
    tenant_id text COLLATE "C" NOT NULL,
    destination_id text COLLATE "C" NOT NULL,
    time timestamptz NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, destination_id, time, id)
) PARTITION BY RANGE (time);

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

CREATE TABLE IF NOT EXISTS openoutbox_log.quarantine (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    quarantined_at timestamptz NOT NULL DEFAULT now(),
    reason text NOT NULL,
    entry text NOT NULL
);

CREATE INDEX IF NOT EXISTS idx_events_tenant_time
ON openoutbox_log.events (tenant_id, time DESC, id DESC);

CREATE INDEX IF NOT EXISTS idx_events_tenant_topic_time
ON openoutbox_log.events (tenant_id, topic, time DESC, id DESC);

CREATE INDEX IF NOT EXISTS idx_events_topic_time
ON openoutbox_log.events (topic, time DESC, id DESC);

CREATE INDEX IF NOT EXISTS idx_events_id
ON openoutbox_log.events (id, time DESC);

CREATE INDEX IF NOT EXISTS idx_event_destinations_time
ON openoutbox_log.event_destinations (destination_id, time DESC, id DESC);

CREATE INDEX IF NOT EXISTS idx_attempts_tenant_time
ON openoutbox_log.attempts (tenant_id, time DESC, id DESC);

CREATE INDEX IF NOT EXISTS idx_attempts_tenant_dest_time
ON openoutbox_log.attempts (tenant_id, destination_id, time DESC, id DESC);

CREATE INDEX IF NOT EXISTS idx_attempts_tenant_status_time
ON openoutbox_log.attempts (tenant_id, status, time DESC, id DESC);

CREATE INDEX IF NOT EXISTS idx_attempts_tenant_topic_time
ON openoutbox_log.attempts (tenant_id, topic, time DESC, id DESC);

CREATE INDEX IF NOT EXISTS idx_attempts_tenant_event_order
ON openoutbox_log.attempts (tenant_id, event_time DESC, event_id DESC, time DESC, id DESC);

CREATE INDEX IF NOT EXISTS idx_attempts_dest_time
ON openoutbox_log.attempts (destination_id, time DESC, id DESC);

CREATE INDEX IF NOT EXISTS idx_attempts_type_time
ON openoutbox_log.attempts (destination_type, time DESC, id DESC);

CREATE INDEX IF NOT EXISTS idx_attempts_status_time
ON openoutbox_log.attempts (status, time DESC, id DESC);

CREATE INDEX IF NOT EXISTS idx_attempts_topic_time
ON openoutbox_log.attempts (topic, time DESC, id DESC);

CREATE INDEX IF NOT EXISTS idx_attempts_event_time
ON openoutbox_log.attempts (event_id, time DESC, id DESC);

CREATE INDEX IF NOT EXISTS idx_attempts_event_order
ON openoutbox_log.attempts (event_time DESC, event_id DESC, time DESC, id DESC);

CREATE INDEX IF NOT EXISTS idx_attempts_id
ON openoutbox_log.attempts (id, time DESC);

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
