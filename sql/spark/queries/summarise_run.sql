-- What a save() has written. Index: the ledger's primary key. Locks nothing.
SELECT state, COALESCE(written_rows, 0), COALESCE(inserted_rows, 0) FROM openoutbox_spark.runs
WHERE run_id = %(run_id)s
