-- One migrate at a time in a database, until the transaction ends. Does not wait: a transaction that waits for a lock
-- holds a snapshot, which CREATE INDEX CONCURRENTLY of the one that holds it would wait for in turn.
-- Parameters: none. Result: whether the lock is held now. The number is "outbox" in ASCII.
SELECT PG_TRY_ADVISORY_XACT_LOCK(122550254464888)
