-- Serves: attempts to a kind of destination.
-- Locks: writes to the table while it is being built; nothing where it exists.
CREATE INDEX IF NOT EXISTS idx_attempts_type_time
ON openoutbox_log.attempts (destination_type, time DESC, id DESC)
