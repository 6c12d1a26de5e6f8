-- A run is over: in the transaction that inserts its rows, or when it is given up. What is over stays as it is.
-- Index: the ledger's primary key. Locks: the run's row; a second commit of one micro-batch fails on runs_epoch.
UPDATE openoutbox_spark.runs
SET
    state = %(state)s,
    written_rows = %(written_rows)s,
    inserted_rows = %(inserted_rows)s,
    seen_at = NOW(),
    finished_at = NOW()
WHERE run_id = %(run_id)s AND state = 'writing'
