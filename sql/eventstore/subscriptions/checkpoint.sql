-- As acknowledge.sql, in a transaction of its own that does not wait for the disk: a server that crashes may forget the
-- last checkpoints, and the batches are delivered again, as they are when the consumer crashes. Who takes over sees it.
-- Index: the primary key. Locks: the row.
UPDATE public.event_subscription
SET
    Position = %(position)s::BIGINT,
    HeldUntil = clock_timestamp() + make_interval(secs => %(lease)s),
    UpdatedAt = now()
WHERE Name = %(name)s AND Holder = %(holder)s::UUID
RETURNING Name, set_config('synchronous_commit', 'off', TRUE)
