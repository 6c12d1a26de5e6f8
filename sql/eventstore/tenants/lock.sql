-- Lets one session at a time change a tenant's partition, until its transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('public.event/' || %(tenant)s::UUID, 0))
