-- An event stays listed for as long as one of its deliveries is retained. Before, its list entries were those of its
-- first delivery alone, and expired with it while a retry was still retained.

-- name: events_key
-- One entry for each delivery of an event. Changes no data: the entries that exist have the earliest time there.
ALTER TABLE event_log_events
ADD COLUMN IF NOT EXISTS delivery_time DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
MODIFY ORDER BY (list, owner, value, sort_time, sort_id, tenant_id, delivery_time);

-- name: events_feed
-- Fills the new column from now on.
ALTER TABLE event_log_events_feed MODIFY QUERY
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
    version,
    time AS delivery_time
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

-- name: events_of_retries
-- Lists the events of the retries that are in the log already. What is there twice is merged.
INSERT INTO event_log_events (
    list, owner, value, sort_time, sort_id, tenant_id, topic, time, id, destination_id, version, delivery_time
)
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
    version,
    time AS delivery_time
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
    WHERE attempt_number != 1 OR manual
);
