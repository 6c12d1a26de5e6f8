-- The rows of one run until its driver commits. Unlogged: a crash of the server empties it, which the commit notices by
-- the count. No index, since it is read once and whole. Locks: the new table.
CREATE UNLOGGED TABLE IF NOT EXISTS openoutbox_spark.stage_00 (
    attempt BIGINT NOT NULL,
    event_id UUID NOT NULL,
    event_type TEXT NOT NULL,
    partition_key TEXT,
    payload BYTEA NOT NULL,
    headers JSONB NOT NULL,
    available_at TIMESTAMPTZ
) WITH (autovacuum_enabled = FALSE)
