-- Events that were not inserted after all, since they are on their way already, are not recorded either.
-- Index: the primary key. Locks: the deleted rows. Parameters: replay_id, ids.
DELETE FROM openoutbox_spark.replayed
WHERE replay_id = %(replay_id)s::uuid AND event_id = ANY(%(ids)s::uuid [])
