-- name: ping
-- Whether the log's tables answer and can be seen.
SELECT 1 FROM openoutbox_log.attempts WHERE false;

-- name: event
-- One event by its id, the newest partition first; with a destination only if the log has an attempt to it.
-- Index: idx_events_id, and idx_attempts_event_time for the attempt.
-- A window around the time that a time-ordered id holds spares the other partitions.
SELECT
    e.id,
    e.tenant_id,
    e.destination_id, --? !destination
    -- %(destination_id)s::text AS destination_id, --? destination
    e.matched_destination_ids,
    e.time,
    e.topic,
    e.eligible_for_retry,
    e.data,
    e.metadata
FROM openoutbox_log.events AS e
WHERE
    e.id = %(event_id)s
    AND e.tenant_id = %(tenant_id)s --? tenant
    AND e.time BETWEEN %(from)s AND %(to)s --? window
    AND EXISTS ( --? destination
        SELECT --? destination
        FROM openoutbox_log.attempts AS a --? destination
        WHERE a.event_id = e.id AND a.tenant_id = e.tenant_id AND a.destination_id = %(destination_id)s --? destination
    ) --? destination
ORDER BY e.time DESC
LIMIT 1;

-- name: attempt
-- One attempt by its id, the newest partition first. Index: idx_attempts_id.
-- A window around the time that a time-ordered id holds spares the other partitions.
SELECT
    a.id, a.event_id, a.tenant_id, a.destination_id, a.destination_type, a.topic, a.status, a.time,
    a.attempt_number, a.manual, a.code, a.response_data, a.event_time, a.eligible_for_retry, a.event_data,
    a.event_metadata, a.event_topic, a.event_destination_id, a.event_matched_destination_ids
FROM openoutbox_log.attempts AS a
WHERE
    a.id = %(attempt_id)s
    AND a.tenant_id = %(tenant_id)s --? tenant
    AND a.time BETWEEN %(from)s AND %(to)s --? window
ORDER BY a.time DESC
LIMIT 1;
