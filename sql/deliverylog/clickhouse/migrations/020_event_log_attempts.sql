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
SETTINGS index_granularity = 256
