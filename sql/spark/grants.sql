-- The rights of a role for its purpose, and no others: to write, to archive, to replay.

-- name: write_outbox
-- The right of a writing role on the outbox: to insert rows. It can neither read nor change any.
GRANT INSERT (event_id, event_type, payload, partition_key, headers, available_at) ON openoutbox_events TO spark_role;

-- name: write_schema
-- The role creates and drops staging tables, in this schema only.
GRANT USAGE, CREATE ON SCHEMA openoutbox_spark TO spark_role;

-- name: write_runs
-- The ledger: the role inserts and finishes runs, and deletes old ones.
GRANT SELECT, INSERT, UPDATE, DELETE ON openoutbox_spark.runs TO spark_role;

-- name: archive_outbox
-- The rights of an archiving role on the outbox: to read rows, and to delete archived ones.
GRANT SELECT, DELETE ON openoutbox_events TO spark_role;

-- name: archive_lock
-- PostgreSQL requires the right to update a column before it locks a row; none is updated.
GRANT UPDATE (updated_at) ON openoutbox_events TO spark_role;

-- name: replay_outbox
-- The rights of a replaying role on the outbox: to read events, to insert their copies, and to delete replaced rows.
GRANT SELECT, INSERT, DELETE ON openoutbox_events TO spark_role;

-- name: replay_schema
-- The schema of the replays' records.
GRANT USAGE ON SCHEMA openoutbox_spark TO spark_role;

-- name: replay_replays
-- The role records replays, and deletes the records after 90 days.
GRANT SELECT, INSERT, DELETE ON openoutbox_spark.replays TO spark_role;

-- name: replay_replayed
-- Likewise the events that each has inserted.
GRANT SELECT, INSERT, DELETE ON openoutbox_spark.replayed TO spark_role;
