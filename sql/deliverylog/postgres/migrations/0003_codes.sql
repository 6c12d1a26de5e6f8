-- Indexes of attempts by code. An attempt without a code, as most deliveries are, is in neither. Each locks writes to the
-- attempts while it is built: recorders wait, and their queue fills.

-- name: idx_attempts_code_time
-- Serves: all tenants' attempts with a code.
CREATE INDEX IF NOT EXISTS idx_attempts_code_time
ON openoutbox_log.attempts (code, time DESC, id DESC) WHERE code IS NOT NULL;

-- name: idx_attempts_tenant_code_time
-- Serves: a tenant's attempts with a code.
CREATE INDEX IF NOT EXISTS idx_attempts_tenant_code_time
ON openoutbox_log.attempts (tenant_id, code, time DESC, id DESC) WHERE code IS NOT NULL;
