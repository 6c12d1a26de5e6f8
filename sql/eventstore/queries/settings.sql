-- What was chosen when the store was made; no row before the first migrate. Index: the primary key.
SELECT Positions, Notify FROM public.event_store
