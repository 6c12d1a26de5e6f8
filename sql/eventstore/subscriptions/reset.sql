-- Sets a subscription to a position and takes it away from its active instance, whose batch in hand then cannot be
-- acknowledged any more. Index: the primary key. Locks: the row.
INSERT INTO public.event_subscription (Name, Position) VALUES (%(name)s, %(position)s::BIGINT)
ON CONFLICT (Name) DO UPDATE
SET Position = EXCLUDED.Position, Holder = NULL, HeldUntil = NULL, UpdatedAt = now()
