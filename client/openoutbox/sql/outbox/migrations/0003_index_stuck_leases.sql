-- 0003 creates: index stuck_leases
-- phase: pre (run before the relay that needs it) | breaking: no
-- Serves the reaper, and settle and renew, which look a lease up by its locked_at.
-- Locks: on a new table none; on a live one it is built CONCURRENTLY (tag live), so that writers go on.
CREATE INDEX --? !live
-- CREATE INDEX CONCURRENTLY --? live
idx_openoutbox_stuck_leases ON openoutbox_events (locked_at ASC) WHERE status = 'DELIVERING';
