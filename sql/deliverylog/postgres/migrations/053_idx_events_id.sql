-- Serves: one event by its id, looked for in the newest partition first.
-- Locks: writes to the table while it is being built; nothing where it exists.
CREATE INDEX IF NOT EXISTS idx_events_id
ON openoutbox_log.events (id, time DESC)
