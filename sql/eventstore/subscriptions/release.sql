-- Lets the next instance become active at once. Index: the primary key. Locks: the row.
UPDATE public.event_subscription SET Holder = NULL, HeldUntil = NULL
WHERE Name = %(name)s AND Holder = %(holder)s::UUID
