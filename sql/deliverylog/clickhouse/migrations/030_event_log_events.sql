-- In which lists an event stands, and by which delivery it is found in event_log: that of its first copy, whose
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
SETTINGS index_granularity = 256
