-- Serves: all tenants' attempts of a topic.
-- Locks: writes to the table while it is being built; nothing where it exists.
CREATE INDEX IF NOT EXISTS idx_attempts_topic_time
ON openoutbox_log.attempts (topic, time DESC, id DESC)
