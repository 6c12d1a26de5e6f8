-- What replay would take back of the DELIVERED events, counted up to MOST; and the latest time among those counted.
-- Index: idx_openoutbox_prune_delivered, or the primary key when ids are given. Locks: none.
-- Parameters: until, most, and where not NULL: since, event_type, partition_key, ids. Result: count, time or NULL.
SELECT
    COUNT(*),
    MAX(since)
FROM (
    SELECT delivered_at AS since
    FROM openoutbox_events
    WHERE
        status = 'DELIVERED'
        AND (%(since)s::timestamptz IS NULL OR delivered_at >= %(since)s::timestamptz)
        AND delivered_at < %(until)s::timestamptz
        AND (%(event_type)s::text IS NULL OR event_type = %(event_type)s::text)
        AND (%(partition_key)s::text IS NULL OR partition_key = %(partition_key)s::text)
        AND (%(ids)s::uuid[] IS NULL OR event_id = ANY(%(ids)s::uuid[]))
    LIMIT %(most)s::bigint
) AS found
