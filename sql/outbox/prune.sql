-- Pruning: how many rows are old enough, and deleting them in batches.

-- name: prunable
-- How many rows prune would delete for having been in their status since before BEFORE, counted up to MOST.
-- Tags: dead or delivered. Index: idx_openoutbox_prune_dead or idx_openoutbox_prune_delivered, index-only where the table
-- has been vacuumed. Locks: none. Parameters: before, most. Result: the count.
SELECT COUNT(*)
FROM (
    SELECT 1
    FROM openoutbox_events
    WHERE status = 'DEAD' AND updated_at < %(before)s::timestamptz --? dead
    -- WHERE status = 'DELIVERED' AND delivered_at < %(before)s::timestamptz --? delivered
    LIMIT %(most)s::bigint
) AS old;

-- name: prune
-- Deletes up to LIMIT rows that have been in their status since before BEFORE, oldest first, from AFTER on.
-- Tags: dead or delivered.
-- Index: idx_openoutbox_prune_dead or idx_openoutbox_prune_delivered, from where the batch before has ended, so
-- that what that one left dead in the index is not walked again; then a TID scan.
-- Locks: the rows it deletes, skipping those that another session holds: it waits for no row.
-- Parameters: limit, before, after, excluded (ids). Result: how many are deleted, the last chosen one's time (NULL when
-- none was left), and the ids of those that a trigger or a rule kept.
WITH old AS (
    SELECT
        ctid AS tid,
        event_id,
        updated_at AS since --? dead
        -- delivered_at AS since --? delivered
    FROM openoutbox_events
    WHERE status = 'DEAD' AND updated_at < %(before)s::timestamptz AND updated_at >= %(after)s::timestamptz --? dead
    -- WHERE status = 'DELIVERED' AND delivered_at < %(before)s::timestamptz AND delivered_at >= %(after)s::timestamptz --? delivered
        AND event_id <> ALL(%(excluded)s::uuid[])
    ORDER BY updated_at --? dead
    -- ORDER BY delivered_at --? delivered
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),

gone AS (
    DELETE FROM openoutbox_events
    WHERE ctid = ANY(ARRAY(SELECT tid FROM old)) AND status NOT IN ('PENDING', 'DELIVERING', 'DELIVERED') --? dead
    -- WHERE ctid = ANY(ARRAY(SELECT tid FROM old)) AND status NOT IN ('PENDING', 'DELIVERING', 'DEAD') --? delivered
    RETURNING event_id
)

SELECT
    (SELECT COUNT(*) FROM gone),
    MAX(since),
    COALESCE(
        ARRAY_AGG(event_id::text) FILTER (WHERE event_id NOT IN (SELECT gone.event_id FROM gone)), ARRAY[]::text[]
    )
FROM old;

-- name: oldest
-- The row that a prune with a limit of 1 would delete. Tags, index and parameters: as prune, without a limit. Locks: that
-- row, skipping those that another session holds, until the transaction ends. Result: its id and time, or no row.
SELECT
    event_id::text,
    updated_at --? dead
    -- delivered_at --? delivered
FROM openoutbox_events
WHERE status = 'DEAD' AND updated_at < %(before)s::timestamptz AND updated_at >= %(after)s::timestamptz --? dead
-- WHERE status = 'DELIVERED' AND delivered_at < %(before)s::timestamptz AND delivered_at >= %(after)s::timestamptz --? delivered
    AND event_id <> ALL(%(excluded)s::uuid[])
ORDER BY updated_at --? dead
-- ORDER BY delivered_at --? delivered
LIMIT 1
FOR UPDATE SKIP LOCKED;
