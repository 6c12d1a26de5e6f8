-- Serves: a tenant's attempts, newest first.
-- Locks: writes to the table while it is being built; nothing where it exists.
CREATE INDEX IF NOT EXISTS idx_attempts_tenant_time
ON openoutbox_log.attempts (tenant_id, time DESC, id DESC)
