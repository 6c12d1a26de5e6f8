-- Durable subscriptions: a row each, with the lease of the instance that is active. With the tag part, the lease is that
-- of a member of a group instead; what only groups have is in subscription_groups.sql.

-- name: ensure
-- Creates a subscription at a position; an existing one keeps its position.
-- Index: the primary key. Locks: the new row.
INSERT INTO public.event_subscription (Name, Position, LastRead)
VALUES (%(name)s, %(position)s::BIGINT, %(last_read)s)
ON CONFLICT (Name) DO NOTHING;

-- name: claim
-- Makes an instance the active one of a subscription, unless another one holds a valid lease. An instance that has
-- lost its connection claims its own lease again. A lease is also over where the claimant has waited for its length
-- without a renewal, whatever the server's clock says: such leases are listed.
-- Index: the primary key. Locks: the row, if updated.
UPDATE public.event_subscription
SET
    Holder = %(holder)s::UUID,
    HeldUntil = clock_timestamp() + make_interval(secs => %(lease)s),
    LeaseSeconds = %(lease)s,
    UpdatedAt = now()
WHERE
    Name = %(name)s
    AND NOT Grouped
    AND (
        Holder IS NULL OR Holder = %(holder)s::UUID OR HeldUntil < clock_timestamp()
        OR (Holder, HeldUntil) IN (
            SELECT ended.Holder, ended.HeldUntil
            FROM unnest(%(ended_holders)s::UUID[], %(ended_until)s::TIMESTAMPTZ[]) AS ended (Holder, HeldUntil)
        )
    )
RETURNING Position, LastRead;

-- name: look
-- Whether a subscription is consumed in parts, and its lease if it is not. No row: it does not exist.
-- Index: the primary key. Locks: nothing.
SELECT Grouped, Holder, HeldUntil, LeaseSeconds, COALESCE(HeldUntil < clock_timestamp(), TRUE)
FROM public.event_subscription WHERE Name = %(name)s;

-- name: renew
-- Renews the active instance's lease; no row when it is no longer the active one. Tags: part.
-- Index: the primary key. Locks: the row.
UPDATE public.event_subscription --? !part
-- UPDATE public.event_subscription_member --? part
SET HeldUntil = clock_timestamp() + make_interval(secs => %(lease)s), LeaseSeconds = %(lease)s
WHERE Name = %(name)s AND Holder = %(holder)s::UUID
RETURNING Name;

-- name: position
-- The committed checkpoint of the active instance; no row when it is no longer the active one. Tags: part.
-- Index: the primary key. Locks: nothing.
SELECT Position
FROM public.event_subscription --? !part
-- FROM public.event_subscription_member --? part
WHERE Name = %(name)s AND Holder = %(holder)s::UUID;

-- name: acknowledge
-- Stores the checkpoint of the active instance, in the transaction of the sender. No row when it is no longer the active
-- one, or when the checkpoint is not the one from which it has read: then nothing that depends on it may commit.
-- synchronous_commit, unless NULL, is set for the transaction.
-- Index: the primary key. Locks: the row. Tags: part.
UPDATE public.event_subscription --? !part
-- UPDATE public.event_subscription_member --? part
SET
    Position = %(position)s::BIGINT,
    LastRead = %(last_read)s,
    HeldUntil = clock_timestamp() + make_interval(secs => %(lease)s),
    LeaseSeconds = %(lease)s,
    UpdatedAt = now()
WHERE Name = %(name)s AND Holder = %(holder)s::UUID AND Position = %(read_from)s::BIGINT
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
-- its current batch. A group is one subscription again until its first member claims. In the same transaction follow
-- subscription_groups:drop_members and drop_slots. What was delivered before is remembered (ReplayUntil).
-- Index: the primary keys. Locks: the row.
INSERT INTO public.event_subscription AS known (Name, Position, LastRead)
VALUES (%(name)s, %(position)s::BIGINT, %(last_read)s)
ON CONFLICT (Name) DO UPDATE
SET
    Position = EXCLUDED.Position,
    LastRead = EXCLUDED.LastRead,
    ReplayUntil = GREATEST(
        known.ReplayUntil,
        known.Position,
        (
            SELECT MAX(GREATEST(slot.Position, member.Position))
            FROM public.event_subscription_slot AS slot
            LEFT JOIN public.event_subscription_member AS member
                ON slot.Name = member.Name AND slot.Holder = member.Holder
            WHERE slot.Name = %(name)s
        )
    ),
    Holder = NULL,
    HeldUntil = NULL,
    Grouped = FALSE,
    UpdatedAt = now();

-- name: delete
-- Deletes a subscription, of a group its members and slots too. Index: the primary key. Locks: the rows.
DELETE FROM public.event_subscription WHERE Name = %(name)s RETURNING Name;

-- name: list
-- All subscriptions by name: whether consumed in parts, checkpoint, whether active, time, holder.
-- Index: none, the table is small. Locks: nothing.
SELECT Name, Grouped, Position, COALESCE(HeldUntil >= clock_timestamp(), FALSE), UpdatedAt, Holder
FROM public.event_subscription ORDER BY Name;

-- name: reached
-- Up to which position every event was acknowledged, in all parts; no row where there is no such subscription.
-- Index: the primary keys. Locks: nothing.
SELECT
    CASE
        WHEN whole.Grouped THEN (
            SELECT MIN(GREATEST(slot.Position, member.Position))
            FROM public.event_subscription_slot AS slot
            LEFT JOIN public.event_subscription_member AS member
                ON slot.Name = member.Name AND slot.Holder = member.Holder
            WHERE slot.Name = whole.Name
        )
        ELSE whole.Position
    END
FROM public.event_subscription AS whole
WHERE whole.Name = %(name)s;

-- name: unread
-- The number of events up to the horizon after a position, counted up to 100,000. Tags: part.
-- Index: the feed's primary key. Locks: nothing.
SELECT COUNT(*)
FROM (
    SELECT FROM public.event_feed
    WHERE
        SequenceNum > %(after)s::BIGINT AND SequenceNum <= %(horizon)s::BIGINT
        -- AND SequenceNum > (%(slots)s::BIGINT[])[(uuid_hash_extended(StreamId, uuid_hash_extended(TenantId, 0)) & 255)::INT + 1] --? part
    LIMIT 100000
) AS unread;

-- name: age
-- Seconds since the oldest of some events was written; NULL where none of them exists. The tenants must reach the
-- planner as constants, so never prepare this. Index: the partitions' primary keys. Locks: nothing.
SELECT EXTRACT(EPOCH FROM clock_timestamp() - MIN(LogDate) FILTER (WHERE ISFINITE(LogDate)))::DOUBLE PRECISION
FROM public.event
WHERE TenantId = ANY(%(tenants)s::UUID[]) AND SequenceNum = ANY(%(positions)s::BIGINT[]);
