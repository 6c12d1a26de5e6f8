-- Times of a sample of the attempts that Spark's filters want, from ``percent`` of the log's pages: between them the
-- ranges are cut. The conditions are those of deliveries.sql. Index: none; reads the sampled pages. Locks: ACCESS SHARE.
SELECT time
FROM openoutbox_log.attempts TABLESAMPLE SYSTEM (%(percent)s)
WHERE
    (%(time_from)s::timestamptz IS NULL OR time >= %(time_from)s::timestamptz)
    AND (%(time_below)s::timestamptz IS NULL OR time < %(time_below)s::timestamptz)
    AND (%(event_time_from)s::timestamptz IS NULL OR event_time >= %(event_time_from)s::timestamptz)
    AND (%(event_time_below)s::timestamptz IS NULL OR event_time < %(event_time_below)s::timestamptz)
    AND (%(status_in)s::text [] IS NULL OR status = ANY(%(status_in)s::text []))
    AND (%(status_not)s::text [] IS NULL OR status <> ALL(%(status_not)s::text []))
    AND (%(topic_in)s::text [] IS NULL OR topic = ANY(%(topic_in)s::text []))
    AND (%(topic_not)s::text [] IS NULL OR topic <> ALL(%(topic_not)s::text []))
    AND (%(topic_prefix)s::text IS NULL OR STARTS_WITH(topic, %(topic_prefix)s::text))
    AND (%(event_id_in)s::text [] IS NULL OR event_id = ANY(%(event_id_in)s::text []))
    AND (%(tenant_id_in)s::text [] IS NULL OR tenant_id = ANY(%(tenant_id_in)s::text []))
    AND (%(destination_id_in)s::text [] IS NULL OR destination_id = ANY(%(destination_id_in)s::text []))
ORDER BY time
