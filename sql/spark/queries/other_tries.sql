-- Earlier tries at a stream's micro-batches that never were committed: a query runs once at a time, so they are dead.
-- Reads the ledger. Locks nothing.
SELECT run_id FROM openoutbox_spark.runs
WHERE outbox = %(outbox)s AND query_id = %(query_id)s AND state = 'writing' AND run_id <> %(run_id)s
