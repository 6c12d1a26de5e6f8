-- Lists of attempts by code. An attempt without a code, as most deliveries are, is in neither.

-- name: attempts_feed
-- Feeds the two lists too from now on.
ALTER TABLE event_log_attempts_feed MODIFY QUERY
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
        arrayJoin(arrayConcat(
            [
                ('all', '', ''), ('tenant', tenant_id, ''),
                ('event_id', '', event_id), ('id', '', delivery_id),
                ('destination_id', '', destination_id), ('tenant_destination_id', tenant_id, destination_id),
                ('topic', '', topic), ('tenant_topic', tenant_id, topic),
                ('status', '', toString(status)), ('tenant_status', tenant_id, toString(status)),
                ('destination_type', '', toString(destination_type)),
                ('order', '', ''), ('tenant_order', tenant_id, '')
            ],
            arrayMap(value -> ('code', '', value), arrayFilter(value -> isNotNull(code), [ifNull(code, '')])),
            arrayMap(value -> ('tenant_code', tenant_id, value), arrayFilter(value -> isNotNull(code), [ifNull(code, '')]))
        )) AS entry
    FROM event_log
);

-- name: codes
-- Lists the attempts with a code that are in the log already. What is there twice is merged.
INSERT INTO event_log_attempts (
    list, owner, value, sort_time, sort_id, time, id, tenant_id, destination_id, event_id, topic, destination_type
)
SELECT
    entry.1 AS list,
    entry.2 AS owner,
    entry.3 AS value,
    time AS sort_time,
    id AS sort_id,
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
        topic,
        destination_type,
        arrayJoin([('code', '', ifNull(code, '')), ('tenant_code', tenant_id, ifNull(code, ''))]) AS entry
    FROM event_log
    WHERE isNotNull(code)
);
