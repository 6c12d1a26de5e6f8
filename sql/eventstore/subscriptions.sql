-- Durable subscriptions: a row each, with the lease of the instance that is active.

-- name: ensure
-- Creates a subscription at a position; an existing one keeps its position.
-- Index: the primary key. Locks: the new row.
INSERT INTO public.event_subscription (Name, Position) VALUES (%(name)s, %(position)s::BIGINT)
ON CONFLICT (Name) DO NOTHING;

-- name: claim
-- Makes an instance the active one of a subscription, unless another one holds a valid lease. An instance that has
-- lost its connection claims its own lease again.
-- Index: the primary key. Locks: the row, if updated.
UPDATE public.event_subscription
SET Holder = %(holder)s::UUID, HeldUntil = clock_timestamp() + make_interval(secs => %(lease)s), UpdatedAt = now()
WHERE
    Name = %(name)s
    AND (Holder IS NULL OR Holder = %(holder)s::UUID OR HeldUntil < clock_timestamp())
RETURNING Position;

-- name: exists
-- Whether a subscription exists. Index: the primary key. Locks: nothing.
SELECT EXISTS (SELECT 1 FROM public.event_subscription WHERE Name = %(name)s);

-- name: renew
-- Renews the active instance's lease; no row when it is no longer the active one.
-- Index: the primary key. Locks: the row.
UPDATE public.event_subscription
SET HeldUntil = clock_timestamp() + make_interval(secs => %(lease)s)
WHERE Name = %(name)s AND Holder = %(holder)s::UUID
RETURNING Name;

-- name: position
-- The committed checkpoint of the active instance; no row when it is no longer the active one.
-- Index: the primary key. Locks: nothing.
SELECT Position FROM public.event_subscription WHERE Name = %(name)s AND Holder = %(holder)s::UUID;

-- name: acknowledge
-- Stores the checkpoint of the active instance, in the transaction of the sender; no row when it is no longer the
-- active one: then nothing that depends on it may commit. synchronous_commit, unless NULL, is set for the transaction.
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
    );

-- name: release
-- Lets the next instance become active at once. Index: the primary key. Locks: the row.
UPDATE public.event_subscription SET Holder = NULL, HeldUntil = NULL
WHERE Name = %(name)s AND Holder = %(holder)s::UUID;

-- name: reset
-- Sets a subscription to a position and ends the lease of its active instance, which then can no longer acknowledge
-- its current batch. Index: the primary key. Locks: the row.
INSERT INTO public.event_subscription (Name, Position) VALUES (%(name)s, %(position)s::BIGINT)
ON CONFLICT (Name) DO UPDATE
SET Position = EXCLUDED.Position, Holder = NULL, HeldUntil = NULL, UpdatedAt = now();

-- name: delete
-- Deletes a subscription. Index: the primary key. Locks: the row.
DELETE FROM public.event_subscription WHERE Name = %(name)s RETURNING Name;

-- name: list
-- All subscriptions by name, with the number of events up to the horizon after each position, counted up to 100,000.
-- Index: the feed's primary key. Locks: nothing.
SELECT
    Name,
    Position,
    COALESCE(HeldUntil >= clock_timestamp(), FALSE),
    UpdatedAt,
    Holder,
    (
        SELECT COUNT(*)
        FROM (
            SELECT FROM public.event_feed
            WHERE SequenceNum > Position AND SequenceNum <= %(horizon)s::BIGINT
            LIMIT 100000
        ) AS unread
    )
FROM public.event_subscription ORDER BY Name;
