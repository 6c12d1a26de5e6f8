-- The ledger: runs are added and finished, and old ones deleted.
GRANT SELECT, INSERT, UPDATE, DELETE ON openoutbox_spark.runs TO spark_role
