-- What a stream has written in the last ``seconds``. Index: runs_epoch. Locks nothing.
SELECT
    COALESCE(SUM(written_rows), 0)::bigint,
    COALESCE(SUM(inserted_rows), 0)::bigint
FROM openoutbox_spark.runs
WHERE
    outbox = %(outbox)s
    AND query_id = %(query_id)s
    AND state = 'committed'
    AND finished_at >= NOW() - MAKE_INTERVAL(secs => %(seconds)s)
