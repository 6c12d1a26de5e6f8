-- One denormalised row per delivery. Two copies of one delivery are one row after a merge; until then whoever reads
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
SETTINGS index_granularity = 128
