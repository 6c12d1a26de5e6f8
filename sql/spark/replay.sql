-- Replays: copies of events, each inserted once for a replay.

-- name: begin_replay
-- Records a replay; does nothing when it is recorded already.
-- Index: its primary key. Locks: the new row. Parameters: replay_id, outbox, selection.
INSERT INTO openoutbox_spark.replays (replay_id, outbox, selection)
VALUES (%(replay_id)s::uuid, %(outbox)s::text, %(selection)s::text)
ON CONFLICT (replay_id) DO NOTHING;

-- name: show_replay
-- The selection of a replay, its start, and how many events it has inserted. Index: the primary keys. Locks nothing.
-- Parameters: replay_id.
SELECT
    replay.outbox,
    replay.selection,
    replay.started_at,
    (SELECT COUNT(*) FROM openoutbox_spark.replayed AS event WHERE event.replay_id = replay.replay_id)
FROM openoutbox_spark.replays AS replay
WHERE replay.replay_id = %(replay_id)s::uuid;

-- name: known_replayed
-- Which of these events a replay has inserted already. Index: the primary key. Locks nothing. Parameters: replay_id, ids.
SELECT event_id::text FROM openoutbox_spark.replayed
WHERE replay_id = %(replay_id)s::uuid AND event_id = ANY(%(ids)s::uuid []);

-- name: claim_replayed
-- Records events of a replay that it has not inserted yet, and that the broker would not drop as repeated: those are
-- left to a later run. Waits for another attempt at the same events, and then finds them recorded.
-- Index: the primary key. Locks: the new rows. Parameters: replay_id, window (seconds), and arrays of one length: ids,
-- times (when each was delivered, or NULL). Result: the ids that are new.
INSERT INTO openoutbox_spark.replayed (replay_id, event_id)
SELECT
    %(replay_id)s::uuid,
    event.event_id
FROM UNNEST(%(ids)s::uuid [], %(times)s::timestamptz []) AS event (event_id, delivered_at)
WHERE event.delivered_at IS NULL OR event.delivered_at <= NOW() - MAKE_INTERVAL(secs => %(window)s)
ORDER BY event.event_id
ON CONFLICT DO NOTHING
RETURNING event_id::text;

-- name: replace_replayed
-- Deletes the old rows of events before their copies are inserted: DELIVERED and DEAD ones only, and none delivered
-- so recently that the broker would drop the copy.
-- Index: the primary key. Locks: the rows; waits for transactions that have locked one. Parameters: ids, window (seconds).
DELETE FROM openoutbox_events
WHERE
    event_id = ANY(%(ids)s::uuid [])
    AND (
        status = 'DEAD'
        OR (status = 'DELIVERED' AND delivered_at <= NOW() - MAKE_INTERVAL(secs => %(window)s))
    );

-- name: insert_replayed
-- The copies: unchanged but for the header by which consumers recognise the replay, and with a new delivery state.
-- Headers that are not an object keep the name under which they are sent.
-- An event whose row still exists (PENDING or DELIVERING) will be sent anyway and stays as it is.
-- Index: the primary key. Locks: the new rows; waits for a transaction that inserts the same event.
-- Parameters: replay_id, new (ids), and arrays of one length: ids, types, keys, payloads, headers, created.
-- Result: the ids that were inserted.
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, created_at)
SELECT
    copy.event_id,
    copy.event_type,
    copy.partition_key,
    copy.payload,
    CASE
        WHEN JSONB_TYPEOF(copy.headers) = 'object' THEN copy.headers
        ELSE JSONB_BUILD_OBJECT('X-Raw-Headers', copy.headers::text)
    END || JSONB_BUILD_OBJECT('replay_id', %(replay_id)s::text),
    copy.created_at
FROM UNNEST(
    %(ids)s::uuid [],
    %(types)s::text [],
    %(keys)s::text [],
    %(payloads)s::bytea [],
    %(headers)s::jsonb [],
    %(created)s::timestamptz []
) AS copy (event_id, event_type, partition_key, payload, headers, created_at)
WHERE copy.event_id = ANY(%(new)s::uuid [])
ON CONFLICT (event_id) DO NOTHING
RETURNING event_id::text;

-- name: unclaim_replayed
-- Deletes the records of events that were not inserted, because their rows still exist.
-- Index: the primary key. Locks: the deleted rows. Parameters: replay_id, ids.
DELETE FROM openoutbox_spark.replayed
WHERE replay_id = %(replay_id)s::uuid AND event_id = ANY(%(ids)s::uuid []);

-- name: retire_replays
-- Deletes the records of replays that began more than 90 days ago, with their events. Reads the record of replays; index: the primary
-- key of their events. Locks: the deleted rows.
WITH old AS (
    DELETE FROM openoutbox_spark.replays WHERE started_at < NOW() - INTERVAL '90 days'
    RETURNING replay_id
)

DELETE FROM openoutbox_spark.replayed WHERE replay_id IN (SELECT old.replay_id FROM old);
