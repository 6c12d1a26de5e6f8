-- What a consumer sends for each message.

-- name: mark
-- Marks an event as handled by a consumer, in the transaction of its sender.
-- ON CONFLICT names no column on purpose: naming one needs SELECT on it, and INSERT is all this statement needs.
-- Tag again: after a mark that added no row. It always fails, so that it adds nothing: with SQLSTATE 23505 for a mark that is
-- there, else with 22P02, the cast of a text that says how many rows it added. None: a BEFORE trigger left the mark out.
-- Index: the primary key. Locks: the new row; it waits for a transaction in flight that marks the same event.
-- Parameters: consumer, event_id. Result: one row for the first mark, none for a repeat.
-- WITH added AS ( --? again
INSERT INTO openoutbox_inbox (consumer, event_id)
VALUES (%(consumer)s::text, %(event_id)s::text)
ON CONFLICT DO NOTHING --? !again
RETURNING 1
-- ) SELECT CONCAT('rows added again: ', COUNT(*))::INT FROM added --? again
;

-- name: mark_all
-- As mark, for a batch. In one order, so that two batches of the same events do not wait in a circle.
-- Index: the primary key. Locks: the new rows; it waits for a transaction in flight that marks one of the events.
-- Parameters: consumer, event_ids. Result: the events that are new, for which it needs SELECT on event_id.
INSERT INTO openoutbox_inbox (consumer, event_id)
SELECT
    %(consumer)s::text,
    given.event_id
FROM UNNEST(%(event_ids)s::text[]) AS given (event_id)
ORDER BY given.event_id
ON CONFLICT DO NOTHING
RETURNING event_id;

-- name: may_leave_out
-- Whether the table has a trigger that may leave rows out: BEFORE INSERT, FOR EACH ROW. Catalog only. Locks: nothing.
SELECT EXISTS (
    SELECT 1
    FROM pg_catalog.pg_trigger
    WHERE
        tgrelid = TO_REGCLASS($name$openoutbox_inbox$name$)
        AND tgenabled IN ('O', 'A')
        AND tgtype & 7 = 7
);
