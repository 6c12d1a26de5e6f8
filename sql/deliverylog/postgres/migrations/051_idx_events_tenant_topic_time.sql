-- Serves: a tenant's events of a topic.
-- Locks: writes to the table while it is being built; nothing where it exists.
CREATE INDEX IF NOT EXISTS idx_events_tenant_topic_time
ON openoutbox_log.events (tenant_id, topic, time DESC, id DESC)
