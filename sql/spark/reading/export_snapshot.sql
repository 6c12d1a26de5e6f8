-- A name by which other transactions can see what this one sees, for as long as it stays open; it is not ended for being
-- idle. Locks nothing, but keeps vacuum from removing what the snapshot sees.
SELECT
    SET_CONFIG('idle_in_transaction_session_timeout', '0', TRUE),
    PG_EXPORT_SNAPSHOT()
