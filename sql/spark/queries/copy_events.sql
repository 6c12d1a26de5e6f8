-- A task's rows straight into the outbox. Fails as a whole when one event_id is there already.
-- Index: the outbox's primary key. Locks: the new rows.
COPY openoutbox_events (event_id, event_type, partition_key, payload, headers, available_at)
FROM STDIN WITH (FORMAT "binary")
