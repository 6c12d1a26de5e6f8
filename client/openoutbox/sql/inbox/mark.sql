-- What a consumer sends for each message.

-- name: mark
-- Marks an event as handled by a consumer, in the transaction of its sender.
-- ON CONFLICT names no column on purpose: naming one needs SELECT on it, and INSERT is all this statement needs.
-- Index: the primary key. Locks: the new row; it waits for a transaction in flight that marks the same event.
-- Parameters: consumer, event_id. Result: one row for the first mark, none for a repeat.
INSERT INTO openoutbox_inbox (consumer, event_id)
VALUES (%(consumer)s::text, %(event_id)s::text)
ON CONFLICT DO NOTHING
RETURNING 1;
