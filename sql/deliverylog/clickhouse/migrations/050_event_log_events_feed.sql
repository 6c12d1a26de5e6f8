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
)
