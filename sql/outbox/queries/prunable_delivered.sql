-- How many rows prune would delete for being DELIVERED since before BEFORE, counted up to MOST.
-- Index: idx_openoutbox_prune_delivered, index-only where the table has been vacuumed. Locks: none.
-- Parameters: before, most. Result: the count.
SELECT COUNT(*)
FROM (
    SELECT 1
    FROM openoutbox_events
    WHERE status = 'DELIVERED' AND delivered_at < %(before)s::timestamptz
    LIMIT %(most)s::bigint
) AS old
