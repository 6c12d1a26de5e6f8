-- Serves: a tenant's events, newest first.
-- Locks: writes to the table while it is being built; nothing where it exists.
CREATE INDEX IF NOT EXISTS idx_events_tenant_time
ON openoutbox_log.events (tenant_id, time DESC, id DESC)
