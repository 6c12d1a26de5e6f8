-- What openoutbox.testing sends, in the transaction of a test.

-- name: announced
-- The events that the transaction sees, its own and those committed, in the order in which they were made.
-- Sequential scan, for the few rows of a test. Locks: nothing.
-- Result: id, type, key, payload, headers as text, the time at which it is due.
SELECT
    event_id,
    event_type,
    partition_key,
    payload,
    headers::text,
    available_at
FROM openoutbox_events
ORDER BY created_at, event_id;

-- name: forget
-- Removes all events. Locks: the rows.
DELETE FROM openoutbox_events;
