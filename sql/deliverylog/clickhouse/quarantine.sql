-- The quarantine: entries that could not be written, for an operator. An entry's id is the MD5 of its text.

-- name: known
-- Which of these entries are in the quarantine already. Reads all of it, which is rare and short.
SELECT DISTINCT entry FROM event_log_quarantine WHERE entry IN {entries:Array(String)};

-- name: list
-- Entries in the order in which they were quarantined.
SELECT
    lower(hex(MD5(entry))) AS id,
    toUnixTimestamp64Milli(quarantined_at) AS time_ms,
    reason,
    entry
FROM event_log_quarantine
WHERE (toUnixTimestamp64Milli(quarantined_at), lower(hex(MD5(entry)))) > ({after_ms:Int64}, {after_id:String}) --? after
ORDER BY quarantined_at, id
LIMIT {most:UInt32};

-- name: count
-- The number of entries that were quarantined at or before an instant.
SELECT count() FROM event_log_quarantine WHERE toUnixTimestamp64Milli(quarantined_at) <= {before:Int64};

-- name: forget
-- Deletes entries by their ids.
ALTER TABLE event_log_quarantine DELETE WHERE lower(hex(MD5(entry))) IN {ids:Array(String)}
SETTINGS mutations_sync = 1;

-- name: purge
-- Deletes the entries that were quarantined at or before an instant.
ALTER TABLE event_log_quarantine DELETE WHERE toUnixTimestamp64Milli(quarantined_at) <= {before:Int64}
SETTINGS mutations_sync = 1;
