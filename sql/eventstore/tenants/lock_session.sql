-- The same lock as lock.sql, held until unlock_session.sql: detaching cannot run inside a transaction.
SELECT pg_advisory_lock(hashtextextended('public.event/' || %(tenant)s::UUID, 0))
