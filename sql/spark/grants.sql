-- What a role needs for a purpose, and nothing more: to write, to archive, to replay.

-- name: write_outbox
-- What a Spark role needs on the outbox: to add rows. It can neither read nor change any.
GRANT INSERT ON openoutbox_events TO spark_role;

-- name: write_schema
-- Staging tables are made and dropped by the role itself, in this schema only.
GRANT USAGE, CREATE ON SCHEMA openoutbox_spark TO spark_role;

-- name: write_runs
-- The ledger: runs are added and finished, and old ones deleted.
GRANT SELECT, INSERT, UPDATE, DELETE ON openoutbox_spark.runs TO spark_role;

-- name: archive_outbox
-- What the archive's role needs on the outbox: to read rows, and to delete those that are archived.
GRANT SELECT, DELETE ON openoutbox_events TO spark_role;

-- name: archive_lock
-- PostgreSQL requires the right to update a column before it locks a row; none is updated.
GRANT UPDATE (updated_at) ON openoutbox_events TO spark_role;

-- name: replay_outbox
-- What the replay's role needs on the outbox: to read events, to insert their copies, and to delete what these replace.
GRANT SELECT, INSERT, DELETE ON openoutbox_events TO spark_role;

-- name: replay_schema
-- The schema in which replays are recorded.
GRANT USAGE ON SCHEMA openoutbox_spark TO spark_role;

-- name: replay_replays
-- Replays are recorded, and forgotten after 90 days.
GRANT SELECT, INSERT, DELETE ON openoutbox_spark.replays TO spark_role;

-- name: replay_replayed
-- So are the events that each has inserted.
GRANT SELECT, INSERT, DELETE ON openoutbox_spark.replayed TO spark_role;
