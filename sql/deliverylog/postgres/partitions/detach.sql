-- Takes a month out of its table while readers and writers go on. Outside a transaction only.
-- Locks: the parent in SHARE UPDATE EXCLUSIVE mode; waits for those who are reading that month.
ALTER TABLE openoutbox_log.events DETACH PARTITION openoutbox_log.events_2000_01 CONCURRENTLY -- noqa: PRS
