-- Takes the old rows of events that are to be inserted again out of the table: DELIVERED and DEAD ones only, and none
-- that was delivered so lately that the broker would drop the copy.
-- Index: the primary key. Locks: the rows; waits for who holds one. Parameters: ids, window (seconds).
DELETE FROM openoutbox_events
WHERE
    event_id = ANY(%(ids)s::uuid [])
    AND (
        status = 'DEAD'
        OR (status = 'DELIVERED' AND delivered_at <= NOW() - MAKE_INTERVAL(secs => %(window)s))
    )
