-- Gives the lock of lock_session.sql up.
SELECT pg_advisory_unlock(hashtextextended('public.event/' || %(tenant)s::UUID, 0))
