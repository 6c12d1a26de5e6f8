-- DELIVERING -> DELIVERED: the broker has acknowledged these events.
-- Index: idx_openoutbox_stuck_leases by the exact locked_at (or the primary key); the fence is status, locked_by
-- and locked_at, so that what comes after the lease was reaped changes nothing.
-- Locks: the rows it writes.
-- Parameters: ids, relay_id, fence. Result: the row count.
UPDATE openoutbox_events SET
    status = 'DELIVERED',
    delivered_at = NOW(),
    locked_by = NULL,
    locked_at = NULL,
    updated_at = NOW()
WHERE
    event_id = ANY(%(ids)s::uuid[])
    AND status = 'DELIVERING'
    AND locked_by = %(relay_id)s::text
    AND locked_at = %(fence)s::timestamptz
