-- Makes a subscription known, at a position; one that is known stays where it is.
-- Index: the primary key. Locks: the new row.
INSERT INTO public.event_subscription (Name, Position) VALUES (%(name)s, %(position)s::BIGINT)
ON CONFLICT (Name) DO NOTHING
