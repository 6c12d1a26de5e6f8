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
)
