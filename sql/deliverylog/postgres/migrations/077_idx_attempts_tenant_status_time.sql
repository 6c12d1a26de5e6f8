-- Serves: a tenant's failed or successful attempts.
-- Locks: writes to the table while it is being built; nothing where it exists.
CREATE INDEX IF NOT EXISTS idx_attempts_tenant_status_time
ON openoutbox_log.attempts (tenant_id, status, time DESC, id DESC)
