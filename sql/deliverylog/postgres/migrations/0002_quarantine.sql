-- Indexes of the quarantine. Each locks writes to the quarantine while it is built.

-- name: idx_quarantine_entry
-- Serves: quarantining an entry once, also when its batch is written again.
CREATE INDEX IF NOT EXISTS idx_quarantine_entry ON openoutbox_log.quarantine (md5(entry));

-- name: idx_quarantine_time
-- Serves: listing the quarantine in its order, and deleting the oldest of it.
CREATE INDEX IF NOT EXISTS idx_quarantine_time ON openoutbox_log.quarantine (quarantined_at, md5(entry));
