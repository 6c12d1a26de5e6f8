-- The outbox table as it is today, in one file: what the migrations lead to, for reading and for psql.
-- A test compares the catalogs of the two; change both, or neither.
CREATE TABLE openoutbox_events (
    event_id UUID PRIMARY KEY,
    event_type TEXT NOT NULL, -- destination: topic, subject or stream
    partition_key TEXT,
    payload BYTEA NOT NULL, -- opaque, never modified
    headers JSONB NOT NULL DEFAULT '{}',
    status TEXT NOT NULL DEFAULT 'PENDING',
    attempts INT NOT NULL DEFAULT 0, -- failed attempts so far
    last_error TEXT,
    available_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), -- not claimed before
    locked_by TEXT, -- RELAY_ID of the holder, while DELIVERING
    locked_at TIMESTAMPTZ, -- the lease's beginning; with locked_by its fence
    delivered_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), -- changes with every state change
    CONSTRAINT check_valid_status CHECK (status IN ('PENDING', 'DELIVERING', 'DELIVERED', 'DEAD'))
);

CREATE INDEX idx_openoutbox_processing_queue ON openoutbox_events (available_at ASC, created_at ASC)
WHERE status = 'PENDING';
CREATE INDEX idx_openoutbox_stuck_leases ON openoutbox_events (locked_at ASC)
WHERE status = 'DELIVERING';
CREATE INDEX idx_openoutbox_metrics_count ON openoutbox_events (status) INCLUDE (attempts)
WHERE status = 'PENDING';
CREATE INDEX idx_openoutbox_metrics_lag ON openoutbox_events (status, created_at ASC)
WHERE status = 'PENDING';
CREATE INDEX idx_openoutbox_prune_delivered ON openoutbox_events (delivered_at)
WHERE status = 'DELIVERED';
CREATE INDEX idx_openoutbox_prune_dead ON openoutbox_events (updated_at)
WHERE status = 'DEAD';
