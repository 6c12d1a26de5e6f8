-- Rows that may be there already. Locks: this session's own table.
COPY pg_temp.openoutbox_spark_repeat (event_id, event_type, partition_key, payload, headers, available_at)
FROM STDIN WITH (FORMAT "binary")
