-- Finds the runs of a job by its name, the newest first: for people. Locks: writes to the ledger, while it is made.
CREATE INDEX IF NOT EXISTS runs_job ON openoutbox_spark.runs (job, started_at)
