-- Deletes what a stream wrote more than a thousand micro-batches ago: Spark goes back to the last one only.
-- Index: runs_epoch. Locks: the deleted rows.
DELETE FROM openoutbox_spark.runs
WHERE outbox = %(outbox)s AND query_id = %(query_id)s AND epoch < %(epoch)s - 1000 AND state = 'committed'
