-- Which events of these a replay has inserted already. Index: the primary key. Locks nothing. Parameters: replay_id, ids.
SELECT event_id::text FROM openoutbox_spark.replayed
WHERE replay_id = %(replay_id)s::uuid AND event_id = ANY(%(ids)s::uuid [])
