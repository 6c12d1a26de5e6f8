-- One event, whole. Index: the primary key. Locks: none. Parameters: event_id.
SELECT
    event_id,
    event_type,
    partition_key,
    status,
    attempts,
    last_error,
    created_at,
    available_at,
    locked_by,
    locked_at,
    delivered_at,
    updated_at,
    headers::text,
    payload
FROM openoutbox_events
WHERE event_id = %(event_id)s::uuid
