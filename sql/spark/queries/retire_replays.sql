-- Forgets replays that began more than 90 days ago, with their events. Reads the record of replays; index: the primary
-- key of their events. Locks: the deleted rows.
WITH old AS (
    DELETE FROM openoutbox_spark.replays WHERE started_at < NOW() - INTERVAL '90 days'
    RETURNING replay_id
)

DELETE FROM openoutbox_spark.replayed WHERE replay_id IN (SELECT old.replay_id FROM old)
