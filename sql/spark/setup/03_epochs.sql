-- No micro-batch of a stream is committed twice, whoever tries. Also serves the look whether one is committed.
-- Locks: writes to the ledger, while the index is made.
CREATE UNIQUE INDEX IF NOT EXISTS runs_epoch ON openoutbox_spark.runs (outbox, query_id, epoch)
WHERE state = 'committed'
