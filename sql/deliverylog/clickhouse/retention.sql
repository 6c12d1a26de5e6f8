-- The retention is a TTL, always the same expression with another number of days. With sync, existing rows are deleted
-- before the statement returns, else in the background.

-- name: read
-- The engine clause of the table as the server has it; its TTL is the retention in force.
SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = {name:String};

-- name: set
-- Delete deliveries older than that many days.
ALTER TABLE event_log MODIFY TTL toDateTime(delivery_time) + toIntervalDay(30)
SETTINGS mutations_sync = 1 --? sync
-- SETTINGS mutations_sync = 0 --? !sync
;

-- name: set_lists
-- Delete the list entries of deliveries older than that many days.
ALTER TABLE event_log_lists MODIFY TTL toDateTime(time) + toIntervalDay(30)
SETTINGS mutations_sync = 1 --? sync
-- SETTINGS mutations_sync = 0 --? !sync
;

-- name: set_quarantine
-- Delete the entries that were quarantined more than that many days ago.
ALTER TABLE event_log_quarantine MODIFY TTL toDateTime(quarantined_at) + toIntervalDay(30)
SETTINGS mutations_sync = 1 --? sync
-- SETTINGS mutations_sync = 0 --? !sync
;

-- name: remove
-- Keep everything. An error on a table that has no TTL: read it first.
ALTER TABLE event_log REMOVE TTL;
