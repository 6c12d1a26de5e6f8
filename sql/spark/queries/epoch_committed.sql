-- Whether a micro-batch of a stream has been committed already, by whichever try. Index: runs_epoch. Locks nothing.
SELECT EXISTS (
    SELECT 1
    FROM openoutbox_spark.runs
    WHERE outbox = %(outbox)s AND query_id = %(query_id)s AND epoch = %(epoch)s AND state = 'committed'
)
