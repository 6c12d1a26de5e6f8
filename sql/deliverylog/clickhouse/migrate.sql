-- The record of the migrations that were applied. ClickHouse has no transactions: every statement of a migration may run
-- again, and two runs at once do the same twice.

-- name: exists
-- Whether there is a record.
SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = {name:String};

-- name: create
-- One row for each applied migration.
CREATE TABLE IF NOT EXISTS event_log_migration (
    number UInt32,
    name String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree
ORDER BY number;

-- name: version
-- The number of the newest migration that was applied, 0 for none.
SELECT max(number) FROM event_log_migration;

-- name: record
-- Records a migration as applied.
INSERT INTO event_log_migration (number, name) SELECT {number:UInt32}, {name:String};
