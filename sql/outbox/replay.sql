-- The record of replays.

-- name: record
-- Records which events a batch of a replay took back, in the batch's own transaction.
-- Needs the optional table of sql/outbox/extensions/replay_audit.sql. Index: none. Locks: the new rows.
-- Parameters: replay_id, outbox, replayed_by, reason; and arrays of one length: ids, statuses, attempts, errors, sinces.
INSERT INTO openoutbox_replays (
    replay_id, outbox, event_id, from_status, from_attempts, from_error, from_since, replayed_by, reason
)
SELECT
    %(replay_id)s::uuid,
    %(outbox)s::text,
    was.event_id,
    was.status,
    was.attempts,
    was.error,
    was.since,
    SESSION_USER || ' (' || %(replayed_by)s::text || ')',
    %(reason)s::text
FROM UNNEST(
    %(ids)s::uuid[], %(statuses)s::text[], %(attempts)s::int[], %(errors)s::text[], %(sinces)s::timestamptz[]
) AS was (event_id, status, attempts, error, since);

-- name: may_record
-- Whether an extension's table is there and this user may insert into it. Catalog only, locks nothing.
-- Parameters: table (quoted). Result: one row, NULL when it is not there.
SELECT HAS_TABLE_PRIVILEGE(TO_REGCLASS(%(table)s::text), 'INSERT');

-- name: first_replays
-- When events were replayed for the first time, for the delivery log; those that never were are left out.
-- Needs the optional table of sql/outbox/extensions/replay_audit.sql, and SELECT on it.
-- Index: openoutbox_replays_event_id. Locks: none. Parameters: outbox, ids. Result: event_id, time.
SELECT
    event_id,
    MIN(replayed_at)
FROM openoutbox_replays
WHERE
    event_id = ANY(%(ids)s::uuid[])
    AND outbox = %(outbox)s::text
GROUP BY event_id;
