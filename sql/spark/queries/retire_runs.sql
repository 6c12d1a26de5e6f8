-- Runs that ended long ago, or never came to an end and left no staging table. Reads the ledger.
-- Locks: the deleted rows.
DELETE FROM openoutbox_spark.runs
WHERE seen_at < NOW() - INTERVAL '90 days' AND (query_id IS NULL OR state <> 'committed')
