-- The staging table of a finished or abandoned run. Locks: ACCESS EXCLUSIVE on it; waits for tasks that still write.
DROP TABLE IF EXISTS openoutbox_spark.stage_00
