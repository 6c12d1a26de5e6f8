-- DELIVERING -> DELIVERING: a full lease from now. The new fence is later than the old one even if the database's
-- clock was set back.
-- Index: idx_openoutbox_stuck_leases by the exact locked_at (or the primary key); the fence is status, locked_by
-- and locked_at, so that what comes after the lease was reaped changes nothing.
-- Locks: the rows it writes.
-- Parameters: ids, relay_id, fence. Result: the ids still held, and the new fence.
UPDATE openoutbox_events SET
    locked_at = GREATEST(NOW(), locked_at + INTERVAL '1 microsecond'),
    updated_at = NOW()
WHERE
    event_id = ANY(%(ids)s::uuid[])
    AND status = 'DELIVERING'
    AND locked_by = %(relay_id)s::text
    AND locked_at = %(fence)s::timestamptz
RETURNING event_id::text, locked_at
