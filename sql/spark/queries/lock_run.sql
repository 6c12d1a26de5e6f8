-- What has become of a run, held until the transaction ends. Index: the ledger's primary key. Locks: the run's row.
SELECT state, written_rows, inserted_rows FROM openoutbox_spark.runs
WHERE run_id = %(run_id)s
FOR UPDATE
