-- Prolongs the active instance's lease; no row when it is no longer the active one.
-- Index: the primary key. Locks: the row.
UPDATE public.event_subscription
SET HeldUntil = clock_timestamp() + make_interval(secs => %(lease)s)
WHERE Name = %(name)s AND Holder = %(holder)s::UUID
RETURNING Name
