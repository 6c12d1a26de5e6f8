-- PENDING -> DELIVERING: lease due rows, oldest first, bounded in number and in payload bytes.
-- Index: idx_openoutbox_processing_queue finds the candidates, a TID scan updates them. A join on event_id instead
-- turns into a hash join with a sequential scan when the batch is large.
-- Locks: the candidates, skipping rows that somebody else holds; those beyond the byte budget stay PENDING and are
-- let go at the commit. The oldest one always fits, so that a row larger than the budget is claimed, alone.
-- An event whose lease expired (it may have killed its relay) and that has one attempt left is claimed alone, so that
-- no neighbour is with it when it uses that up.
-- octet_length() of a toasted payload reads its length from the pointer, not the payload.
-- The LIMIT is a subquery so that the planner does not know it and always walks the index in order: with the number,
-- and statistics that underrate the backlog, it reads all that is due and sorts it.
-- Parameters: limit, max_bytes, max_attempts, relay_id. Result: the fields of OutboxEvent in their order, then the fence.
WITH due AS (
    SELECT
        ctid AS tid,
        octet_length(payload) AS bytes,
        available_at,
        created_at,
        attempts + 1::bigint >= %(max_attempts)s::bigint AND STARTS_WITH(last_error, 'LEASE_EXPIRED:') AS alone
    FROM openoutbox_events
    WHERE status = 'PENDING' AND available_at <= NOW()
    ORDER BY available_at, created_at
    LIMIT (SELECT %(limit)s::bigint)
    FOR UPDATE SKIP LOCKED
),

summed AS (
    SELECT
        tid,
        SUM(bytes) OVER oldest_first AS total,
        BOOL_OR(alone) OVER oldest_first AS beside_alone,
        ROW_NUMBER() OVER oldest_first AS place
    FROM due
    WINDOW oldest_first AS (ORDER BY available_at, created_at ROWS UNBOUNDED PRECEDING)
),

claimed AS (
    UPDATE openoutbox_events SET
        status = 'DELIVERING',
        locked_by = %(relay_id)s::text,
        locked_at = NOW(),
        updated_at = NOW()
    WHERE ctid = ANY(ARRAY(
        SELECT tid FROM summed
        WHERE place = 1 OR (total <= %(max_bytes)s::bigint AND beside_alone IS NOT TRUE)
    ))
    RETURNING
        event_id, event_type, partition_key, payload, headers, attempts, created_at, available_at, locked_at
)

SELECT
    event_id::text,
    event_type,
    partition_key,
    payload,
    headers::text,
    attempts,
    CASE WHEN ISFINITE(created_at) THEN GREATEST(DATE_PART('epoch', NOW() - created_at), 0) ELSE 0 END AS age,
    locked_at
FROM claimed
ORDER BY available_at, created_at
