-- Positions begin at 1. Index: the primary key. Locks: the new row.
INSERT INTO public.event_position (Last) VALUES (0) ON CONFLICT DO NOTHING
