-- Snapshots: several reads of one state of the database.

-- name: export_snapshot
-- A name by which other transactions can use this one's snapshot while it is open. Locks nothing, but keeps vacuum from
-- removing what the snapshot sees.
SELECT PG_EXPORT_SNAPSHOT();

-- name: adopt_snapshot
-- Uses another transaction's snapshot; must be the first statement of the transaction. Locks nothing, but
-- keeps vacuum from removing row versions that that snapshot sees.
SET TRANSACTION SNAPSHOT %(snapshot)s;
