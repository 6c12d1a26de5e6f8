-- The tables of the log, in the order in which relay-cli log migrate creates them. Each statement may run again: an
-- interrupted migration starts from its first statement.

-- name: event_log
-- One denormalised row per delivery. Two copies of one delivery are one row after a merge; until then the reader
-- takes the copy of the highest version. The granules are small because listings fetch single rows by their key.
CREATE TABLE IF NOT EXISTS event_log (
    event_id String,
    tenant_id String,
    destination_id String,
    topic String,
    eligible_for_retry Bool,
    event_time DateTime64(3, 'UTC'),
    metadata String,
    data String,
    delivery_id String,
    delivery_event_id String,
    status LowCardinality(String),
    delivery_time DateTime64(3, 'UTC'),
    code Nullable(String),
    response_data Nullable(String),
    attempt_number UInt32,
    manual Bool,
    destination_type LowCardinality(String),
    event_topic String,
    event_destination_id String,
    matched_destination_ids Array(String),
    version DateTime64(9, 'UTC') DEFAULT now64(9),
    INDEX idx_event_id event_id TYPE bloom_filter GRANULARITY 4,
    INDEX idx_topic topic TYPE bloom_filter GRANULARITY 4,
    INDEX idx_status status TYPE set(4) GRANULARITY 4
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMMDD(delivery_time)
ORDER BY (tenant_id, destination_id, delivery_time, event_id, delivery_id)
SETTINGS index_granularity = 128;

-- name: event_log_attempts
-- In which lists an attempt stands: one narrow row for each, in the order in which the list is read. A page is one
-- range of this table; the rows themselves are then fetched from event_log by their key.
-- Not partitioned: a list would have to be read from every day at once.
CREATE TABLE IF NOT EXISTS event_log_attempts (
    list LowCardinality(String),
    owner String,
    value String,
    sort_time DateTime64(3, 'UTC'),
    sort_id String,
    time DateTime64(3, 'UTC'),
    id String,
    tenant_id String,
    destination_id String,
    event_id String,
    topic LowCardinality(String),
    destination_type LowCardinality(String)
)
ENGINE = ReplacingMergeTree
ORDER BY (list, owner, value, sort_time, sort_id, time, id, tenant_id, destination_id, event_id)
SETTINGS index_granularity = 256;

-- name: event_log_events
-- In which lists an event stands, and which delivery represents it in event_log: that of its first copy, whose
-- version is the highest because versions count downward here.
CREATE TABLE IF NOT EXISTS event_log_events (
    list LowCardinality(String),
    owner String,
    value String,
    sort_time DateTime64(3, 'UTC'),
    sort_id String,
    tenant_id String,
    topic LowCardinality(String),
    time DateTime64(3, 'UTC'),
    id String,
    destination_id String,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (list, owner, value, sort_time, sort_id, tenant_id)
SETTINGS index_granularity = 256;

-- name: event_log_attempts_feed
-- Puts every inserted delivery into the lists of attempts, in the same insert.
CREATE MATERIALIZED VIEW IF NOT EXISTS event_log_attempts_feed TO event_log_attempts AS
SELECT
    entry.1 AS list,
    entry.2 AS owner,
    entry.3 AS value,
    if(list IN ('order', 'tenant_order'), event_time, time) AS sort_time,
    if(list IN ('order', 'tenant_order'), event_id, id) AS sort_id,
    time,
    id,
    tenant_id,
    destination_id,
    event_id,
    topic,
    destination_type
FROM (
    SELECT
        delivery_time AS time,
        delivery_id AS id,
        tenant_id,
        destination_id,
        event_id,
        event_time,
        topic,
        destination_type,
        arrayJoin([
            ('all', '', ''), ('tenant', tenant_id, ''),
            ('event_id', '', event_id), ('id', '', delivery_id),
            ('destination_id', '', destination_id), ('tenant_destination_id', tenant_id, destination_id),
            ('topic', '', topic), ('tenant_topic', tenant_id, topic),
            ('status', '', toString(status)), ('tenant_status', tenant_id, toString(status)),
            ('destination_type', '', toString(destination_type)),
            ('order', '', ''), ('tenant_order', tenant_id, '')
        ]) AS entry
    FROM event_log
);

-- name: event_log_events_feed
-- Puts the event of every inserted delivery into the lists of events, in the same insert.
CREATE MATERIALIZED VIEW IF NOT EXISTS event_log_events_feed TO event_log_events AS
SELECT
    entry.1 AS list,
    entry.2 AS owner,
    entry.3 AS value,
    event_time AS sort_time,
    event_id AS sort_id,
    tenant_id,
    event_topic AS topic,
    time,
    id,
    destination_id,
    version
FROM (
    SELECT
        event_time,
        event_id,
        tenant_id,
        event_topic,
        delivery_time AS time,
        delivery_id AS id,
        destination_id,
        18446744073709551615 - toUInt64(toUnixTimestamp64Nano(event_log.version)) AS version,
        arrayJoin(arrayConcat(
            [
                ('all', '', ''), ('tenant', tenant_id, ''), ('event_id', '', event_id),
                ('topic', '', event_topic), ('tenant_topic', tenant_id, event_topic)
            ],
            arrayMap(matched -> ('destination_id', '', matched), matched_destination_ids),
            arrayMap(matched -> ('tenant_destination_id', tenant_id, matched), matched_destination_ids)
        )) AS entry
    FROM event_log
);

-- name: event_log_quarantine
-- Entries that could not be written, as ASCII JSON, and why, for an operator.
CREATE TABLE IF NOT EXISTS event_log_quarantine (
    quarantined_at DateTime64(3, 'UTC') DEFAULT now64(3),
    reason String,
    entry String
)
ENGINE = MergeTree
ORDER BY quarantined_at;
