-- A replay begins, or goes on; nothing happens where it is recorded already.
-- Index: its primary key. Locks: the new row. Parameters: replay_id, outbox, selection.
INSERT INTO openoutbox_spark.replays (replay_id, outbox, selection)
VALUES (%(replay_id)s::uuid, %(outbox)s::text, %(selection)s::text)
ON CONFLICT (replay_id) DO NOTHING
