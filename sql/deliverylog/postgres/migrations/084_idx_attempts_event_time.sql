-- Serves: the attempts of an event.
-- Locks: writes to the table while it is being built; nothing where it exists.
CREATE INDEX IF NOT EXISTS idx_attempts_event_time
ON openoutbox_log.attempts (event_id, time DESC, id DESC)
