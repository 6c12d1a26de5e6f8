-- 0002 creates: index processing_queue
-- phase: pre (run before the relay that needs it) | breaking: no
-- Serves the claim and the age of the oldest due row.
-- Locks: on a new table none; on a live one it is built CONCURRENTLY (tag live), so that writers go on.
CREATE INDEX --? !live
-- CREATE INDEX CONCURRENTLY --? live
idx_openoutbox_processing_queue ON openoutbox_events (available_at ASC, created_at ASC)
WHERE status = 'PENDING';
