-- Spark's schema and its ledgers. Setup runs the statements create_… in this order; each may be repeated.

-- name: lock_setup
-- One setup at a time in a database, until the transaction ends: two that both create the schema would collide.
-- Does not wait. Parameters: none. Result: whether the lock is held now. The number is "spark" in ASCII.
SELECT PG_TRY_ADVISORY_XACT_LOCK(495806673515);

-- name: find_table
-- Whether a ledger exists. Parameters: relation, its quoted name. Catalog only, locks nothing.
SELECT TO_REGCLASS(%(relation)s::text) IS NOT NULL;

-- name: missing_columns
-- The columns that a ledger lacks; NULL for a missing ledger. Parameters: relation, its quoted name; columns.
-- Catalog only, locks nothing.
SELECT CASE
    WHEN TO_REGCLASS(%(relation)s::text) IS NOT NULL THEN ARRAY(
        SELECT required.name
        FROM UNNEST(%(columns)s::text []) AS required (name)
        WHERE NOT EXISTS (
            SELECT 1
            FROM pg_catalog.pg_attribute AS attribute
            WHERE
                attribute.attrelid = TO_REGCLASS(%(relation)s::text)
                AND attribute.attname = required.name
                AND NOT attribute.attisdropped
        )
    )
END;

-- name: create_schema
-- A schema for Spark's ledger and its staging tables, apart from the outbox: the Spark role may create and drop tables
-- here and nowhere else. Locks: the new schema.
CREATE SCHEMA IF NOT EXISTS openoutbox_spark;

-- name: create_runs
-- The ledger: one row for each save() and for each micro-batch of a stream that has written anything.
-- ``committed`` is set in the transaction that makes the rows visible in the outbox, so it says whether they are.
-- Locks: none; the table is new.
CREATE TABLE IF NOT EXISTS openoutbox_spark.runs (
    run_id UUID PRIMARY KEY,
    outbox TEXT NOT NULL,
    outbox_oid OID,
    job TEXT NOT NULL,
    mode TEXT NOT NULL,
    query_id TEXT,
    epoch BIGINT,
    checkpoint TEXT,
    driver TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'writing' CHECK (state IN ('writing', 'committed', 'aborted')),
    written_rows BIGINT,
    inserted_rows BIGINT,
    bytes BIGINT,
    retries BIGINT,
    id_sum BIGINT,
    stream_run TEXT,
    started_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    seen_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    finished_at TIMESTAMPTZ
);

-- name: extend_runs
-- The columns that a ledger of an earlier release lacks. Locks: ACCESS EXCLUSIVE on the ledger, for an instant; waits for
-- commits in flight.
ALTER TABLE openoutbox_spark.runs
ADD COLUMN IF NOT EXISTS checkpoint TEXT,
ADD COLUMN IF NOT EXISTS bytes BIGINT,
ADD COLUMN IF NOT EXISTS retries BIGINT,
ADD COLUMN IF NOT EXISTS outbox_oid OID,
ADD COLUMN IF NOT EXISTS id_sum BIGINT,
ADD COLUMN IF NOT EXISTS stream_run TEXT;

-- name: create_runs_version
-- No version of a query is committed twice, by any try. Also finds a version, and the last one.
-- Locks: writes to the ledger, while the index is created.
CREATE UNIQUE INDEX IF NOT EXISTS runs_version ON openoutbox_spark.runs (query_id, epoch, outbox)
WHERE state = 'committed';

-- name: create_runs_open
-- Finds the tries at a query's micro-batches that were not committed. Locks: writes to the ledger, while it is created.
CREATE INDEX IF NOT EXISTS runs_open ON openoutbox_spark.runs (query_id, outbox) WHERE state <> 'committed';

-- name: create_runs_started
-- Finds old runs. Locks: writes to the ledger, while it is created.
CREATE INDEX IF NOT EXISTS runs_started ON openoutbox_spark.runs (started_at);

-- name: create_runs_job
-- Finds the runs of a job by its name, newest first: for operators. Locks: writes to the ledger, while it is created.
CREATE INDEX IF NOT EXISTS runs_job ON openoutbox_spark.runs (job, started_at);

-- name: create_replays
-- One row for each replay. ``selection`` holds its filters, so that a replay that is run again is of the same events;
-- ages in it count from ``started_at``.
-- Locks: none; the table is new.
CREATE TABLE IF NOT EXISTS openoutbox_spark.replays (
    replay_id UUID PRIMARY KEY,
    outbox TEXT NOT NULL,
    selection TEXT NOT NULL,
    started_at TIMESTAMPTZ NOT NULL DEFAULT NOW()
);

-- name: create_replayed
-- Every event of every replay: written in the transaction that inserts its copy, so that it is inserted once.
-- Locks: none; the table is new.
CREATE TABLE IF NOT EXISTS openoutbox_spark.replayed (
    replay_id UUID NOT NULL,
    event_id UUID NOT NULL,
    PRIMARY KEY (replay_id, event_id)
);
