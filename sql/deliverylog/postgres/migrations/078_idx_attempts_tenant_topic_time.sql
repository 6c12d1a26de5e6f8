-- Serves: a tenant's attempts of a topic.
-- Locks: writes to the table while it is being built; nothing where it exists.
CREATE INDEX IF NOT EXISTS idx_attempts_tenant_topic_time
ON openoutbox_log.attempts (tenant_id, topic, time DESC, id DESC)
