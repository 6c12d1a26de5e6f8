-- What a replay is of, since when, and how many events it has inserted. Index: the primary keys. Locks nothing.
-- Parameters: replay_id.
SELECT
    replay.outbox,
    replay.selection,
    replay.started_at,
    (SELECT COUNT(*) FROM openoutbox_spark.replayed AS event WHERE event.replay_id = replay.replay_id)
FROM openoutbox_spark.replays AS replay
WHERE replay.replay_id = %(replay_id)s::uuid
