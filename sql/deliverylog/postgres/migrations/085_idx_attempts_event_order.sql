-- Serves: all attempts in the order of their events.
-- Locks: writes to the table while it is being built; nothing where it exists.
CREATE INDEX IF NOT EXISTS idx_attempts_event_order
ON openoutbox_log.attempts (event_time DESC, event_id DESC, time DESC, id DESC)
