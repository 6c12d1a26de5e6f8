-- A run begins, or shows that it lives; its state decides whether a task may go on.
-- Index: the ledger's primary key. Locks: the run's row until the transaction ends, so that of tasks that come at the
-- same time one makes the staging table and the others find it.
INSERT INTO openoutbox_spark.runs AS run (run_id, outbox, job, mode, query_id, epoch, driver)
VALUES (%(run_id)s, %(outbox)s, %(job)s, %(mode)s, %(query_id)s, %(epoch)s, %(driver)s)
ON CONFLICT (run_id) DO UPDATE SET seen_at = NOW()
RETURNING run.state
