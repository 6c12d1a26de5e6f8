-- Serves: one attempt by its id, looked for in the newest partition first.
-- Locks: writes to the table while it is being built; nothing where it exists.
CREATE INDEX IF NOT EXISTS idx_attempts_id
ON openoutbox_log.attempts (id, time DESC)
