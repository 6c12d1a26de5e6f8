-- Stores how far the active instance has got, in whose transaction ever it is sent; no row when it is no longer the
-- active one: then nothing that depends on it may commit. synchronous_commit, where given, is that of the transaction.
-- Index: the primary key. Locks: the row.
UPDATE public.event_subscription
SET
    Position = %(position)s::BIGINT,
    HeldUntil = clock_timestamp() + make_interval(secs => %(lease)s),
    UpdatedAt = now()
WHERE Name = %(name)s AND Holder = %(holder)s::UUID
RETURNING
    Name,
    set_config(
        'synchronous_commit', COALESCE(%(synchronous_commit)s::TEXT, current_setting('synchronous_commit')), TRUE
    )
