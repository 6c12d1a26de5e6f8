-- What a stream has written since a micro-batch. Index: runs_epoch. Locks nothing.
SELECT
    COUNT(*),
    COALESCE(SUM(written_rows), 0)::bigint,
    COALESCE(SUM(inserted_rows), 0)::bigint
FROM openoutbox_spark.runs
WHERE outbox = %(outbox)s AND query_id = %(query_id)s AND epoch > %(after)s AND state = 'committed'
