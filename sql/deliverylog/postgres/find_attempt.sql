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
LIMIT 1
