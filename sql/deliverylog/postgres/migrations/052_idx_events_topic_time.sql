-- Serves: all tenants' events of a topic.
-- Locks: writes to the table while it is being built; nothing where it exists.
CREATE INDEX IF NOT EXISTS idx_events_topic_time
ON openoutbox_log.events (topic, time DESC, id DESC)
