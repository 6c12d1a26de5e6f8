-- Those of the waiting rows that are not there yet. Naming no column in ON CONFLICT, it needs no right to read.
-- Index: the outbox's primary key. Locks: the new rows; it waits for an attempt in flight that inserts the same ids.
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, available_at)
SELECT
    again.event_id,
    again.event_type,
    again.partition_key,
    again.payload,
    again.headers,
    again.available_at
FROM pg_temp.openoutbox_spark_repeat AS again
ON CONFLICT DO NOTHING
