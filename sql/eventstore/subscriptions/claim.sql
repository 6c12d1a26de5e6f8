-- Makes an instance the active one of a subscription if there is none, or if it let its lease run out.
-- Index: the primary key. Locks: the row, if it is to be had.
UPDATE public.event_subscription
SET Holder = %(holder)s::UUID, HeldUntil = clock_timestamp() + make_interval(secs => %(lease)s), UpdatedAt = now()
WHERE Name = %(name)s AND (Holder IS NULL OR HeldUntil < clock_timestamp())
RETURNING Position
