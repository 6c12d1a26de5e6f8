-- One setup at a time in a database, until the transaction ends: two that both find the schema missing would collide.
-- Parameters: none. The number is "spark" in ASCII.
SELECT PG_ADVISORY_XACT_LOCK(495806673515)
