-- Serves: all tenants' events of a destination.
-- Locks: writes to the table while it is being built; nothing where it exists.
CREATE INDEX IF NOT EXISTS idx_event_destinations_time
ON openoutbox_log.event_destinations (destination_id, time DESC, id DESC)
