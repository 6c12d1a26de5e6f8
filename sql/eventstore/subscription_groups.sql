-- Subscriptions that are consumed in parts. relay/eventstore/groups.py describes slots and members.

-- name: lock
-- Locks a subscription, so that one instance at a time changes who holds which slot. Whether it is consumed in parts,
-- and if not, whether an instance of the whole one holds a valid lease. Ended leases: as in subscriptions:claim.
-- Index: the primary key. Locks: the row.
SELECT
    Grouped,
    Holder IS NULL OR HeldUntil < clock_timestamp()
    OR (Holder, HeldUntil) IN (
        SELECT ended.Holder, ended.HeldUntil
        FROM unnest(%(ended_holders)s::UUID[], %(ended_until)s::TIMESTAMPTZ[]) AS ended (Holder, HeldUntil)
    )
FROM public.event_subscription WHERE Name = %(name)s FOR UPDATE;

-- name: create_slots
-- Makes a locked subscription one that is consumed in parts: every slot begins at its position. Locks: the new rows.
WITH grouped AS (
    UPDATE public.event_subscription
    SET
        Grouped = TRUE,
        Holder = '00000000-0000-0000-0000-000000000000',
        HeldUntil = '9999-01-01 00:00:00+00',
        UpdatedAt = now()
    WHERE Name = %(name)s
    RETURNING Name, Position, LastRead
)

INSERT INTO public.event_subscription_slot (Name, Slot, Position, LastRead)
SELECT grouped.Name, slots.Slot, grouped.Position, grouped.LastRead
FROM grouped CROSS JOIN generate_series(0, 255) AS slots (Slot);

-- name: leases
-- The leases on the slots of a part; a slot without one has no holder. Index: the primary keys. Locks: nothing.
SELECT
    wanted.Holder, member.HeldUntil, member.LeaseSeconds, COALESCE(member.HeldUntil < clock_timestamp(), TRUE)
FROM (
    SELECT DISTINCT Name, Holder FROM public.event_subscription_slot
    WHERE Name = %(name)s AND MOD(Slot, %(parts)s::INT) = %(part)s::INT
) AS wanted
LEFT JOIN public.event_subscription_member AS member USING (Name, Holder);

-- name: free_slots
-- Ends the leases that are over, and those of this instance, and stores in their slots the position that each had
-- reached. Passes over a member whose acknowledgement has not committed: it is alive, and may wait for this one.
-- Index: the primary keys. Locks: the members and their slots.
WITH ended AS (
    SELECT Name, Holder FROM public.event_subscription_member
    WHERE
        Name = %(name)s
        AND (
            HeldUntil < clock_timestamp() OR Holder = ANY(%(own)s::UUID[])
            OR (Holder, HeldUntil) IN (
                SELECT listed.Holder, listed.HeldUntil
                FROM unnest(%(ended_holders)s::UUID[], %(ended_until)s::TIMESTAMPTZ[]) AS listed (Holder, HeldUntil)
            )
        )
    FOR UPDATE SKIP LOCKED
),

members AS (
    DELETE FROM public.event_subscription_member AS member USING ended
    WHERE member.Name = ended.Name AND member.Holder = ended.Holder
    RETURNING member.Name, member.Holder, member.Position, member.LastRead
)

UPDATE public.event_subscription_slot AS slot
SET
    Holder = NULL,
    Position = GREATEST(slot.Position, members.Position),
    LastRead = CASE WHEN members.Position > slot.Position THEN members.LastRead ELSE slot.LastRead END
FROM members WHERE slot.Name = members.Name AND slot.Holder = members.Holder;

-- name: take_slots
-- Takes the free slots of a part for a new member, in a locked group: each with its position; no row where none is free.
-- Index: the primary keys. Locks: the slots and the new member.
WITH slots AS (
    UPDATE public.event_subscription_slot SET Holder = %(holder)s::UUID
    WHERE Name = %(name)s AND MOD(Slot, %(parts)s::INT) = %(part)s::INT AND Holder IS NULL
    RETURNING Slot, Position, LastRead
),

member AS (
    INSERT INTO public.event_subscription_member (
        Name, Holder, Part, Parts, Position, LastRead, HeldUntil, LeaseSeconds
    )
    SELECT
        %(name)s,
        %(holder)s::UUID,
        %(part)s::INT,
        %(parts)s::INT,
        MIN(slots.Position),
        (ARRAY_AGG(slots.LastRead ORDER BY slots.Position))[1],
        clock_timestamp() + make_interval(secs => %(lease)s),
        %(lease)s
    FROM slots HAVING COUNT(*) > 0
)

SELECT slots.Slot, slots.Position, slots.LastRead FROM slots;

-- name: release
-- Ends a member, and stores in its slots the position that it has reached. Index: the primary keys.
-- Locks: the member, then its slots.
WITH members AS (
    DELETE FROM public.event_subscription_member WHERE Name = %(name)s AND Holder = %(holder)s::UUID
    RETURNING Name, Holder, Position, LastRead
)

UPDATE public.event_subscription_slot AS slot
SET
    Holder = NULL,
    Position = GREATEST(slot.Position, members.Position),
    LastRead = CASE WHEN members.Position > slot.Position THEN members.LastRead ELSE slot.LastRead END
FROM members WHERE slot.Name = members.Name AND slot.Holder = members.Holder;

-- name: drop_members
-- Ends all members of a locked group; waits for acknowledgements that have not committed. Before the slots, as release
-- does, so that the two cannot wait for each other. Index: the primary key. Locks: the members.
DELETE FROM public.event_subscription_member WHERE Name = %(name)s;

-- name: drop_slots
-- Deletes the slots of a locked group. Index: the primary key. Locks: the slots.
DELETE FROM public.event_subscription_slot WHERE Name = %(name)s;

-- name: list
-- Every slot of every group with the position that it has reached, and its member, if any; those of one holder together.
-- Index: the primary keys. Locks: nothing.
SELECT
    slot.Slot,
    GREATEST(slot.Position, member.Position),
    slot.Name,
    slot.Holder,
    member.Part,
    member.Parts,
    COALESCE(member.HeldUntil >= statement_timestamp(), FALSE),
    COALESCE(member.UpdatedAt, whole.UpdatedAt)
FROM public.event_subscription_slot AS slot
INNER JOIN public.event_subscription AS whole ON slot.Name = whole.Name
LEFT JOIN public.event_subscription_member AS member ON slot.Name = member.Name AND slot.Holder = member.Holder
ORDER BY slot.Name, member.Part, member.Parts, slot.Holder, slot.Slot;
