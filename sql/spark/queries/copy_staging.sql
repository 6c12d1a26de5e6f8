-- A task's rows, each marked with the attempt that wrote it. Locks: ROW EXCLUSIVE on the staging table, which keeps it
-- from being cleaned away while a task writes.
COPY openoutbox_spark.stage_00 (attempt, event_id, event_type, partition_key, payload, headers, available_at)
FROM STDIN WITH (FORMAT "binary")
