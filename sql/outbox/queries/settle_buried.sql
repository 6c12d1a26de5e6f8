-- DELIVERING -> DEAD: the last failed attempt, or one that can never succeed.
-- Index: idx_openoutbox_stuck_leases by the exact locked_at (or the primary key); the fence is status, locked_by
-- and locked_at, so that what comes after the lease was reaped changes nothing.
-- Locks: the rows it writes.
-- Parameters: ids, errors (two arrays of one length), relay_id, fence. Result: the row count.
UPDATE openoutbox_events AS event SET
    status = 'DEAD',
    attempts = LEAST(event.attempts, 2147483646) + 1,
    last_error = failed.error,
    locked_by = NULL,
    locked_at = NULL,
    updated_at = NOW()
FROM UNNEST(%(ids)s::uuid[], %(errors)s::text[]) AS failed (event_id, error)
WHERE
    event.event_id = failed.event_id
    AND event.status = 'DELIVERING'
    AND event.locked_by = %(relay_id)s::text
    AND event.locked_at = %(fence)s::timestamptz
