-- Indexes of the failed attempts of a destination. A delivery is in neither. Each locks writes to the attempts while it is
-- built: recorders wait, and their queue fills.

-- name: idx_attempts_dest_failed_time
-- Serves: all tenants' failed attempts to a destination.
CREATE INDEX IF NOT EXISTS idx_attempts_dest_failed_time
ON openoutbox_log.attempts (destination_id, time DESC, id DESC) WHERE status = 'failed';

-- name: idx_attempts_tenant_dest_failed_time
-- Serves: a tenant's failed attempts to a destination.
CREATE INDEX IF NOT EXISTS idx_attempts_tenant_dest_failed_time
ON openoutbox_log.attempts (tenant_id, destination_id, time DESC, id DESC) WHERE status = 'failed';
