-- 0002 creates: index processing_queue
-- phase: pre (run before the relay that needs it) | breaking: no
-- Serves the claim and the age of the oldest due row.
-- Locks: on a new table none; on a table that exists migrate adds CONCURRENTLY, so writers go on.
CREATE INDEX idx_openoutbox_processing_queue ON openoutbox_events (available_at ASC, created_at ASC)
WHERE status = 'PENDING';
