-- How far the active instance has got, as committed; no row when it is no longer the active one.
-- Index: the primary key. Locks: nothing.
SELECT Position FROM public.event_subscription WHERE Name = %(name)s AND Holder = %(holder)s::UUID
