-- Serves: all tenants' failed or successful attempts.
-- Locks: writes to the table while it is being built; nothing where it exists.
CREATE INDEX IF NOT EXISTS idx_attempts_status_time
ON openoutbox_log.attempts (status, time DESC, id DESC)
