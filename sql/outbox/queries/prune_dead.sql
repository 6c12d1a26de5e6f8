-- Deletes up to LIMIT rows that have been DEAD since before BEFORE, oldest first, from AFTER on.
-- Index: idx_openoutbox_prune_dead, from the place where the batch before has ended, so that what that one left
-- dead in the index is not walked again; then a TID scan.
-- Locks: the rows it deletes, skipping those that somebody holds: it waits for nobody's row.
-- Parameters: limit, before, after. Result: how many are gone, and the last one's time (NULL when none was left).
WITH old AS (
    SELECT ctid AS tid
    FROM openoutbox_events
    WHERE status = 'DEAD' AND updated_at < %(before)s::timestamptz AND updated_at >= %(after)s::timestamptz
    ORDER BY updated_at
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),

gone AS (
    DELETE FROM openoutbox_events
    WHERE ctid = ANY(ARRAY(SELECT tid FROM old)) AND status = 'DEAD'
    RETURNING updated_at AS since
)

SELECT
    COUNT(*),
    MAX(since)
FROM gone
