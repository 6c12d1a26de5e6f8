-- All subscriptions by name. Locks: nothing.
SELECT Name, Position, COALESCE(HeldUntil >= clock_timestamp(), FALSE), UpdatedAt
FROM public.event_subscription ORDER BY Name
