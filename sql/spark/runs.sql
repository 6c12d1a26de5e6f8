-- The ledger: runs of Spark's writer. An outbox is known by its full name and its oid, together.

-- name: open_run
-- Records a run, or that it is alive; its state decides whether a task may go on. Result: its state, whether it is of this
-- table, and the rows that it has written and inserted.
-- Index: the ledger's primary key. Locks: the run's row until the transaction ends, so that one of several
-- concurrent tasks creates the staging table and the others use it.
INSERT INTO openoutbox_spark.runs AS run (run_id, outbox, outbox_oid, job, mode, query_id, epoch, checkpoint, driver)
VALUES (
    %(run_id)s,
    %(outbox)s,
    TO_REGCLASS(%(outbox)s::text)::oid,
    %(job)s,
    %(mode)s,
    %(query_id)s,
    %(epoch)s,
    %(checkpoint)s,
    %(driver)s
)
ON CONFLICT (run_id) DO UPDATE SET seen_at = NOW()
RETURNING
    run.state,
    run.outbox = %(outbox)s AND run.outbox_oid IS NOT DISTINCT FROM TO_REGCLASS(%(outbox)s::text)::oid,
    COALESCE(run.written_rows, 0),
    COALESCE(run.inserted_rows, 0);

-- name: commit_run
-- Ends a run in the transaction that inserts its rows. One that has ended does not change.
-- Index: the ledger's primary key. Locks: the run's row; a second commit of one version fails on runs_version.
UPDATE openoutbox_spark.runs
SET
    state = 'committed',
    written_rows = %(rows)s,
    inserted_rows = %(inserted)s,
    bytes = %(bytes)s,
    retries = %(retries)s,
    id_sum = %(id_sum)s,
    stream_run = %(stream_run)s,
    seen_at = NOW(),
    finished_at = NOW()
WHERE run_id = %(run_id)s AND state = 'writing';

-- name: abort_run
-- Ends a run whose rows are not to be inserted any more. Index: the ledger's primary key. Locks: the run's row.
UPDATE openoutbox_spark.runs
SET state = 'aborted', seen_at = NOW(), finished_at = NOW()
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

-- name: committed_version
-- The last committed version of a query, or, tagged "exact", this one, and whether it was written to this table: name and
-- oid must be the same. One of both, or a row without an oid, of an earlier release, is in doubt.
-- Index: runs_version. Locks nothing.
SELECT
    epoch,
    COALESCE(written_rows, 0),
    id_sum,
    checkpoint,
    stream_run,
    outbox,
    outbox = %(outbox)s AND COALESCE(outbox_oid = TO_REGCLASS(%(outbox)s::text)::oid, FALSE) AS same
FROM openoutbox_spark.runs
WHERE
    query_id = %(query_id)s
    AND state = 'committed'
    AND (outbox = %(outbox)s OR outbox_oid IS NULL OR outbox_oid = TO_REGCLASS(%(outbox)s::text)::oid)
    AND epoch = %(epoch)s --? exact
ORDER BY epoch DESC, same DESC
LIMIT 1;

-- name: adopt_runs
-- Lets a table adopt the runs of its name, and those of its oid: after a restored dump, a renaming, or an earlier release.
-- Reads the ledger. Locks: the changed rows. Parameters: outbox, its full quoted name; names, the other ones.
UPDATE openoutbox_spark.runs
SET outbox = %(outbox)s, outbox_oid = TO_REGCLASS(%(outbox)s::text)::oid
WHERE
    (outbox = %(outbox)s OR outbox = ANY(%(names)s::text []) OR outbox_oid = TO_REGCLASS(%(outbox)s::text)::oid)
    AND (outbox <> %(outbox)s OR outbox_oid IS DISTINCT FROM TO_REGCLASS(%(outbox)s::text)::oid);

-- name: summarise_stream
-- The result of a stream in the last ``seconds``. Index: runs_version. Locks nothing.
SELECT
    COALESCE(SUM(written_rows), 0)::bigint,
    COALESCE(SUM(inserted_rows), 0)::bigint
FROM openoutbox_spark.runs
WHERE
    outbox_oid = TO_REGCLASS(%(outbox)s::text)::oid
    AND query_id = %(query_id)s
    AND state = 'committed'
    AND finished_at >= NOW() - MAKE_INTERVAL(secs => %(seconds)s);

-- name: forget_versions
-- Deletes the records of a stream's commits more than a thousand micro-batches ago: Spark goes back to the last one only.
-- Of a txnAppId's only those that are 90 days old as well. Index: runs_version. Locks: the deleted rows.
DELETE FROM openoutbox_spark.runs
WHERE
    outbox = %(outbox)s
    AND query_id = %(query_id)s
    AND epoch < %(epoch)s - 1000
    AND state = 'committed'
    AND (NOT %(transaction)s OR finished_at < NOW() - INTERVAL '90 days');

-- name: other_tries
-- Earlier tries at a stream's micro-batches that were not committed: a query runs once at a time, so they are dead. Of
-- aborted ones those that still have a staging table. Parameters: also schema (its name, not quoted).
-- Index: runs_open. Locks nothing.
SELECT run_id FROM openoutbox_spark.runs
WHERE
    outbox = %(outbox)s
    AND query_id = %(query_id)s
    AND run_id <> %(run_id)s
    AND state <> 'committed'
    AND (
        state = 'writing'
        OR TO_REGCLASS(FORMAT('%%I.%%I', %(schema)s::text, 'stage_' || REPLACE(run_id::text, '-', ''))) IS NOT NULL
    );

-- name: retire_runs
-- Deletes runs that began 90 days ago; of each query the last commit stays. Index: runs_started, and runs_version for the
-- later commit. Locks: the deleted rows.
DELETE FROM openoutbox_spark.runs AS old
WHERE
    old.started_at < NOW() - INTERVAL '90 days'
    AND (
        old.query_id IS NULL
        OR old.state <> 'committed'
        OR EXISTS (
            SELECT 1 FROM openoutbox_spark.runs AS later
            WHERE
                later.query_id = old.query_id
                AND later.outbox = old.outbox
                AND later.state = 'committed'
                AND later.epoch > old.epoch
        )
    );
