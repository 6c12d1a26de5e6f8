-- Keeps what was chosen. Index: the primary key. Locks: the row.
INSERT INTO public.event_store (Positions, Notify) VALUES (%(positions)s, %(notify)s)
ON CONFLICT (OnlyRow) DO UPDATE SET Notify = EXCLUDED.Notify
