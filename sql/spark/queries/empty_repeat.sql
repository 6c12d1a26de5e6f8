-- Makes room for the next rows that may be there already. Locks: this session's own table.
TRUNCATE pg_temp.openoutbox_spark_repeat
