-- After a renewal's COMMIT whose answer was lost: which of the two fences does each row bear?
-- Index: the primary key, or idx_openoutbox_stuck_leases by locked_at.
-- Locks: the rows, so that it waits for a COMMIT that is still under way instead of overtaking it.
-- Parameters: ids, relay_id, fence (the old one), renewed (the new one). Result: id and fence of the rows held.
SELECT event_id::text, locked_at
FROM openoutbox_events
WHERE
    event_id = ANY(%(ids)s::uuid[])
    AND status = 'DELIVERING'
    AND locked_by = %(relay_id)s::text
    AND locked_at IN (%(fence)s::timestamptz, %(renewed)s::timestamptz)
FOR UPDATE
