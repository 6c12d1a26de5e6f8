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
GROUP BY event_id
