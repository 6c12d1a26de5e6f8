-- Snapshots: several reads of one state of the database.

-- name: export_snapshot
-- A name by which other transactions can use this one's snapshot while it is open; the server does not end it for being
-- idle. Locks nothing, but keeps vacuum from removing what the snapshot sees.
SELECT
    SET_CONFIG('idle_in_transaction_session_timeout', '0', TRUE),
    PG_EXPORT_SNAPSHOT();

-- name: adopt_snapshot
-- Uses another transaction's snapshot; must be the first statement of the transaction. Locks nothing, but
-- keeps vacuum from removing row versions that that snapshot sees.
SET TRANSACTION SNAPSHOT %(snapshot)s;
