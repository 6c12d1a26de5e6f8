-- Where rows wait that may be there already: a task that is repeated, or two rows with one event_id.
-- Gone with the transaction. Needs the right to make temporary tables, which everybody has unless it was taken away.
CREATE TEMPORARY TABLE IF NOT EXISTS openoutbox_spark_repeat (
    event_id UUID NOT NULL,
    event_type TEXT NOT NULL,
    partition_key TEXT,
    payload BYTEA NOT NULL,
    headers JSONB NOT NULL,
    available_at TIMESTAMPTZ NOT NULL
) ON COMMIT DROP
