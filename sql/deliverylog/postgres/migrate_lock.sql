-- One process at a time changes the schema; the lock ends with the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('openoutbox_log.migrate', 0))
