-- Optional: remembers every event that an operator has replayed: which, what it was, when, by whom and why.
-- Without it relay-cli replay works and says that nothing is recorded. Safe to run again.
-- Locks: none; the table is new. One table serves every outbox of its schema.
CREATE TABLE IF NOT EXISTS openoutbox_replays (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    replay_id UUID NOT NULL,
    outbox TEXT NOT NULL,
    event_id UUID NOT NULL,
    from_status TEXT NOT NULL,
    from_attempts INT NOT NULL,
    from_error TEXT,
    from_since TIMESTAMPTZ,
    replayed_by TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    replayed_at TIMESTAMPTZ NOT NULL DEFAULT NOW()
);
