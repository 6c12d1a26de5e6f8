-- How far a reader may read: every position up to the horizon has committed. Newest is the same here: there is never
-- anything to wait for. Index: the primary key. Locks: nothing.
CREATE OR REPLACE FUNCTION public.event_horizon(OUT Horizon BIGINT, OUT Newest BIGINT)
LANGUAGE sql STABLE AS $$
    SELECT Last, Last FROM public.event_position WHERE OnlyRow
$$
