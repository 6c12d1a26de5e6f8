-- The ledger: one row for each save() and for each micro-batch of a stream that has written anything.
-- ``committed`` is set in the transaction that makes the rows visible in the outbox, so it says whether they are.
-- Locks: none; the table is new.
CREATE TABLE IF NOT EXISTS openoutbox_spark.runs (
    run_id UUID PRIMARY KEY,
    outbox TEXT NOT NULL,
    job TEXT NOT NULL,
    mode TEXT NOT NULL,
    query_id TEXT,
    epoch BIGINT,
    driver TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'writing' CHECK (state IN ('writing', 'committed', 'aborted')),
    written_rows BIGINT,
    inserted_rows BIGINT,
    started_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    seen_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    finished_at TIMESTAMPTZ
)
