-- DEAD -> PENDING, by the operator (invariant 6): up to LIMIT events, oldest first, as if they had never been tried.
-- Index: idx_openoutbox_prune_dead from AFTER on, or the primary key when ids are given; then a TID scan.
-- Locks: the rows it writes, skipping those that somebody holds.
-- UNTIL is the time at which the replay began at the latest, so that an event that comes to DEAD again meanwhile is
-- not replayed again. Parameters: limit, after, until, and where not NULL: since, event_type, partition_key, ids.
-- Result: what each event was before, for the record.
WITH chosen AS (
    SELECT
        ctid AS tid,
        event_id,
        status,
        attempts,
        last_error,
        updated_at AS since
    FROM openoutbox_events
    WHERE
        status = 'DEAD'
        AND updated_at >= %(after)s::timestamptz
        AND (%(since)s::timestamptz IS NULL OR updated_at >= %(since)s::timestamptz)
        AND updated_at < %(until)s::timestamptz
        AND (%(event_type)s::text IS NULL OR event_type = %(event_type)s::text)
        AND (%(partition_key)s::text IS NULL OR partition_key = %(partition_key)s::text)
        AND (%(ids)s::uuid[] IS NULL OR event_id = ANY(%(ids)s::uuid[]))
    ORDER BY updated_at
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),

replayed AS (
    UPDATE openoutbox_events SET
        status = 'PENDING',
        attempts = 0,
        last_error = NULL,
        delivered_at = NULL,
        available_at = NOW(),
        updated_at = NOW()
    WHERE ctid = ANY(ARRAY(SELECT tid FROM chosen)) AND status = 'DEAD'
    RETURNING event_id
)

SELECT
    chosen.event_id,
    chosen.status,
    chosen.attempts,
    chosen.last_error,
    chosen.since
FROM chosen
INNER JOIN replayed ON chosen.event_id = replayed.event_id
ORDER BY chosen.since
