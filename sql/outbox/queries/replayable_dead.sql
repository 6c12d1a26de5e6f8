-- What replay would take back of the DEAD events, counted up to MOST; and the latest time among those counted.
-- Index: idx_openoutbox_prune_dead, or the primary key when ids are given. Locks: none.
-- Parameters: until, most, and where not NULL: since, event_type, partition_key, ids. Result: count, time or NULL.
SELECT
    COUNT(*),
    MAX(since)
FROM (
    SELECT updated_at AS since
    FROM openoutbox_events
    WHERE
        status = 'DEAD'
        AND (%(since)s::timestamptz IS NULL OR updated_at >= %(since)s::timestamptz)
        AND updated_at < %(until)s::timestamptz
        AND (%(event_type)s::text IS NULL OR event_type = %(event_type)s::text)
        AND (%(partition_key)s::text IS NULL OR partition_key = %(partition_key)s::text)
        AND (%(ids)s::uuid[] IS NULL OR event_id = ANY(%(ids)s::uuid[]))
    LIMIT %(most)s::bigint
) AS found
