-- The ledger: runs of Spark's writer.

-- name: open_run
-- Records a run, or that it is alive; its state decides whether a task may go on.
-- Index: the ledger's primary key. Locks: the run's row until the transaction ends, so that one of several
-- concurrent tasks creates the staging table and the others use it.
INSERT INTO openoutbox_spark.runs AS run (run_id, outbox, job, mode, query_id, epoch, checkpoint, driver)
VALUES (%(run_id)s, %(outbox)s, %(job)s, %(mode)s, %(query_id)s, %(epoch)s, %(checkpoint)s, %(driver)s)
ON CONFLICT (run_id) DO UPDATE SET seen_at = NOW()
RETURNING run.state;

-- name: lock_run
-- The state of a run, locked until the transaction ends. Index: the ledger's primary key. Locks: the run's row.
SELECT state, written_rows, inserted_rows FROM openoutbox_spark.runs
WHERE run_id = %(run_id)s
FOR UPDATE;

-- name: finish_run
-- Ends a run: in the transaction that inserts its rows, or when it is aborted. A run that has ended does not change.
-- Index: the ledger's primary key. Locks: the run's row; a second commit of one micro-batch fails on runs_epoch.
UPDATE openoutbox_spark.runs
SET
    state = %(state)s,
    written_rows = %(written_rows)s,
    inserted_rows = %(inserted_rows)s,
    bytes = %(bytes)s,
    retries = %(retries)s,
    seen_at = NOW(),
    finished_at = NOW()
WHERE run_id = %(run_id)s AND state = 'writing';

-- name: summarise_run
-- The result of a save(). Index: the ledger's primary key. Locks nothing.
SELECT
    state,
    COALESCE(written_rows, 0),
    COALESCE(inserted_rows, 0),
    COALESCE(bytes, 0),
    COALESCE(retries, 0),
    EXTRACT(EPOCH FROM COALESCE(finished_at, seen_at) - started_at)::float8
FROM openoutbox_spark.runs
WHERE run_id = %(run_id)s;

-- name: last_epoch
-- The last committed micro-batch of a stream, its rows, and the stream's checkpoint. Index: runs_epoch. Locks nothing.
SELECT epoch, COALESCE(written_rows, 0), checkpoint FROM openoutbox_spark.runs
WHERE outbox = %(outbox)s AND query_id = %(query_id)s AND state = 'committed'
ORDER BY epoch DESC
LIMIT 1;

-- name: summarise_stream
-- The result of a stream in the last ``seconds``. Index: runs_epoch. Locks nothing.
SELECT
    COALESCE(SUM(written_rows), 0)::bigint,
    COALESCE(SUM(inserted_rows), 0)::bigint
FROM openoutbox_spark.runs
WHERE
    outbox = %(outbox)s
    AND query_id = %(query_id)s
    AND state = 'committed'
    AND finished_at >= NOW() - MAKE_INTERVAL(secs => %(seconds)s);

-- name: forget_epochs
-- Deletes the records of a stream's commits more than a thousand micro-batches ago: Spark goes back to the last one only.
-- Index: runs_epoch. Locks: the deleted rows.
DELETE FROM openoutbox_spark.runs
WHERE outbox = %(outbox)s AND query_id = %(query_id)s AND epoch < %(epoch)s - 1000 AND state = 'committed';

-- name: other_tries
-- Earlier tries at a stream's micro-batches that were not committed: a query runs once at a time, so they are dead. Of
-- aborted ones those that still have a staging table. Parameters: also schema (its name, not quoted).
-- Reads the ledger. Locks nothing.
SELECT run_id FROM openoutbox_spark.runs
WHERE
    outbox = %(outbox)s
    AND query_id = %(query_id)s
    AND run_id <> %(run_id)s
    AND (
        state = 'writing'
        OR state = 'aborted'
        AND TO_REGCLASS(FORMAT('%%I.%%I', %(schema)s::text, 'stage_' || REPLACE(run_id::text, '-', ''))) IS NOT NULL
    );

-- name: retire_runs
-- Deletes runs that gave no sign of life for 90 days; the commits of streams stay. Reads the ledger.
-- Locks: the deleted rows.
DELETE FROM openoutbox_spark.runs
WHERE seen_at < NOW() - INTERVAL '90 days' AND (query_id IS NULL OR state <> 'committed');
