-- Lets one migrate at a time work, until its transaction ends.
SELECT PG_ADVISORY_XACT_LOCK(HASHTEXTEXTENDED('public.event_store', 0))
