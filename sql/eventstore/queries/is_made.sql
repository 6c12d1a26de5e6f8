-- Whether there is a store in the schema. Locks: nothing.
SELECT TO_REGCLASS('public.event_store') IS NOT NULL
