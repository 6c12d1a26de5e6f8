-- Snapshots: several reads that see one moment.

-- name: export_snapshot
-- A name by which other transactions can see what this one sees, for as long as it stays open; it is not ended for being
-- idle. Locks nothing, but keeps vacuum from removing what the snapshot sees.
SELECT
    SET_CONFIG('idle_in_transaction_session_timeout', '0', TRUE),
    PG_EXPORT_SNAPSHOT();

-- name: adopt_snapshot
-- Sees the table as another transaction's snapshot does; before anything else in the transaction. Locks nothing, but
-- keeps vacuum from removing what that snapshot sees.
SET TRANSACTION SNAPSHOT %(snapshot)s;
