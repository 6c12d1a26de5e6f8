-- Optional, for a table that keeps many delivered rows: has autovacuum clean the index that claims walk in time.
-- By default it comes when a fifth of the table is dead (10 million rows of 50 million), and then leaves the indexes alone
-- while less than 2% of the pages hold dead rows; claims step over everything that is dead until then.
-- What was measured: docs/operate/large-table.md. Safe to run again.
-- To undo: ALTER TABLE ... RESET with the names below.
-- Locks: SHARE UPDATE EXCLUSIVE for an instant. No reader and no writer waits; an autovacuum gives way.
ALTER TABLE openoutbox_events SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 100000,
    vacuum_index_cleanup = on
);
