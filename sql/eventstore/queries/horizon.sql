-- How far a reader may read now. Send this before the page, as a statement of its own: only a snapshot taken later
-- shows everything up to the horizon. Locks: nothing.
SELECT Horizon, Newest, now() FROM public.event_horizon()
