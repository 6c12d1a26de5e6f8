-- name: ping
-- Whether the server answers and the table exists.
SELECT count() FROM event_log WHERE false;

-- name: deliveries
-- The newest copy of each of some deliveries, by the full sort key of event_log. The bounds on the time spare the
-- other days.
SELECT
    delivery_id,
    delivery_event_id,
    tenant_id,
    destination_id,
    destination_type,
    topic,
    status,
    toUnixTimestamp64Milli(delivery_time) AS time_ms,
    attempt_number,
    manual,
    code,
    response_data,
    toUnixTimestamp64Milli(event_time) AS event_ms,
    eligible_for_retry,
    data, --? data
    -- '' AS data, --? !data
    metadata,
    event_topic,
    event_destination_id,
    matched_destination_ids
FROM event_log
WHERE
    delivery_time >= fromUnixTimestamp64Milli({earliest:Int64}, 'UTC')
    AND delivery_time <= fromUnixTimestamp64Milli({latest:Int64}, 'UTC')
    AND (tenant_id, destination_id, delivery_time, event_id, delivery_id) IN (
        SELECT
            key.1,
            key.2,
            fromUnixTimestamp64Milli(key.3, 'UTC'),
            key.4,
            key.5
        FROM (
            SELECT arrayJoin(arrayZip(
                {tenants:Array(String)}, {destinations:Array(String)}, {times:Array(Int64)}, {events:Array(String)},
                {ids:Array(String)}
            )) AS key
        )
    )
ORDER BY version DESC
LIMIT 1 BY tenant_id, destination_id, delivery_time, event_id, delivery_id;

-- name: has_attempt
-- Whether an attempt of this tenant's event to this destination exists; one range of the list by event.
SELECT count() FROM (
    SELECT 1
    FROM event_log_attempts
    WHERE
        list = 'event_id' AND owner = '' AND value = {event_id:String}
        AND tenant_id = {tenant_id:String} AND destination_id = {destination_id:String}
    LIMIT 1
);
