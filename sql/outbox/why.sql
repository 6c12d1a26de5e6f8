-- What is in an event's way.

-- name: ahead
-- The first unfinished and the first dead event before an event in its key: what it waits for in order per key. Keys that
-- share a hash are ordered as one, as in claim_ordered. Needs the column and the indexes of sql/outbox/extensions/key_order.sql.
-- Indexes: the primary key, then one entry of idx_openoutbox_order_waiting and of idx_openoutbox_order_dead, after claim:guard
-- in its transaction. Locks: none. Parameters: event_id. Result: id, type,
-- status and, of a dead one, since when, in the order of the key.
SELECT
    ahead.event_id::text,
    LEFT(ahead.event_type, 4097),
    ahead.status,
    CASE ahead.status WHEN 'DEAD' THEN ahead.updated_at END
FROM openoutbox_events AS event
CROSS JOIN LATERAL (
    (
        SELECT
            event_id,
            event_type,
            status,
            updated_at,
            insertion_order
        FROM openoutbox_events
        WHERE
            HASHTEXTEXTENDED(partition_key, 0) = HASHTEXTEXTENDED(event.partition_key, 0)
            AND status IN ('PENDING', 'DELIVERING')
            AND partition_key IS NOT NULL
            AND insertion_order < event.insertion_order
        ORDER BY insertion_order
        LIMIT 1
    )
    UNION ALL
    (
        SELECT
            event_id,
            event_type,
            status,
            updated_at,
            insertion_order
        FROM openoutbox_events
        WHERE
            HASHTEXTEXTENDED(partition_key, 0) = HASHTEXTEXTENDED(event.partition_key, 0)
            AND status NOT IN ('PENDING', 'DELIVERING', 'DELIVERED')
            AND partition_key IS NOT NULL
            AND insertion_order < event.insertion_order
        ORDER BY insertion_order
        LIMIT 1
    )
) AS ahead
WHERE event.event_id = %(event_id)s::uuid
ORDER BY ahead.insertion_order;
