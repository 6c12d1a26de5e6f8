-- Staging tables: the rows of a run until its driver commits (commit=atomic).

-- name: create_staging
-- The rows of one run until its driver commits. Unlogged: a crash of the server empties it, which the commit notices by
-- the count. The commit reads it by its key. Locks: the new table.
CREATE UNLOGGED TABLE IF NOT EXISTS openoutbox_spark.stage_00 (
    attempt BIGINT NOT NULL,
    number BIGINT NOT NULL,
    event_id UUID NOT NULL,
    event_type TEXT NOT NULL,
    partition_key TEXT,
    payload BYTEA NOT NULL,
    headers JSONB NOT NULL,
    available_at TIMESTAMPTZ,
    PRIMARY KEY (attempt, number)
) WITH (autovacuum_enabled = FALSE);

-- name: copy_staging
-- A task's rows, each with the attempt that wrote it and its number in the task. Locks: ROW EXCLUSIVE on the staging table, which keeps it
-- from being cleaned away while a task writes.
COPY openoutbox_spark.stage_00 (attempt, number, event_id, event_type, partition_key, payload, headers, available_at)
FROM STDIN WITH (FORMAT "binary");

-- name: count_staging
-- How many rows the attempts that count have staged; compared with the counts of their tasks. Reads the whole table.
SELECT COUNT(*) FROM openoutbox_spark.stage_00 WHERE attempt = ANY(%(attempts)s::bigint []);

-- name: read_in_order
-- Until the transaction ends: reads the staging table by its key, instead of sorting whole rows, in temporary files. The
-- planner has no statistics of that table. Locks nothing.
SET LOCAL enable_sort = OFF;

-- name: insert_staging
-- Inserts all rows of the successful attempts, in one statement: this makes a run visible.
-- Fails as a whole when one event_id exists already; not checking each takes a fifth less time. Tagged "known": those
-- rows stay as they are; naming no column in ON CONFLICT, it needs no right to read.
-- Index: both primary keys. Locks: the new rows; it waits for transactions in flight that insert the same ids.
-- In the frame's order: an attempt's number begins with its partition's. Two runs with the same ids in different orders
-- may end in a deadlock; the commit that loses it is tried again.
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, available_at)
SELECT
    stage.event_id,
    stage.event_type,
    stage.partition_key,
    stage.payload,
    stage.headers,
    COALESCE(stage.available_at, NOW())
FROM openoutbox_spark.stage_00 AS stage
WHERE stage.attempt = ANY(%(attempts)s::bigint [])
ORDER BY stage.attempt, stage.number
ON CONFLICT DO NOTHING --? known
;

-- name: others_staging
-- Of these rows some whose ids are in the outbox with another type or payload (FALSE), or not any more (NULL).
-- Reads the whole table. Index: the outbox's primary key. Locks: nothing.
SELECT
    stage.event_id::text,
    openoutbox_same(stage.event_id, stage.event_type, SHA256(stage.payload)) AS same
FROM openoutbox_spark.stage_00 AS stage
WHERE
    stage.attempt = ANY(%(attempts)s::bigint [])
    AND openoutbox_same(stage.event_id, stage.event_type, SHA256(stage.payload)) IS NOT TRUE
LIMIT 3;

-- name: drop_staging
-- The staging table of a run that has ended. Locks: ACCESS EXCLUSIVE on it; waits for tasks that still write.
DROP TABLE IF EXISTS openoutbox_spark.stage_00;

-- name: list_staging
-- Every staging table: its run, and, if the ledger has that, its state, its driver, and whether it has given no sign of
-- life for ``max_age`` seconds. Parameters: schema (its name, not quoted). Index: the ledger's primary key. Locks nothing.
SELECT
    stage.run_id,
    run.state,
    run.driver,
    run.seen_at < NOW() - MAKE_INTERVAL(secs => %(max_age)s) AS silent
FROM (
    SELECT SUBSTRING(relation.relname FROM '^stage_([0-9a-f]{32})$')::uuid AS run_id
    FROM pg_catalog.pg_class AS relation
    INNER JOIN pg_catalog.pg_namespace AS namespace ON relation.relnamespace = namespace.oid
    WHERE namespace.nspname = %(schema)s AND relation.relkind = 'r'
) AS stage
LEFT JOIN openoutbox_spark.runs AS run ON stage.run_id = run.run_id
WHERE stage.run_id IS NOT NULL
ORDER BY stage.run_id;
