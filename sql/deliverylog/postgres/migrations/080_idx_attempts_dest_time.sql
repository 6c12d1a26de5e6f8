-- Serves: all tenants' attempts to a destination.
-- Locks: writes to the table while it is being built; nothing where it exists.
CREATE INDEX IF NOT EXISTS idx_attempts_dest_time
ON openoutbox_log.attempts (destination_id, time DESC, id DESC)
