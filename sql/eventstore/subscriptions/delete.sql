-- Forgets a subscription. Index: the primary key. Locks: the row.
DELETE FROM public.event_subscription WHERE Name = %(name)s
