-- Optional: remembers every event that an operator has replayed: which, what it was, when, by which user and why.
-- Without it relay-cli replay works and says that nothing is recorded, and the delivery log does not know which
-- attempts follow a replay. Safe to run again. Locks: none, the table is new; on an older one SHARE for the index.
-- One table serves every outbox of its schema.
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

-- The delivery log looks events up as it writes their attempts.
CREATE INDEX IF NOT EXISTS openoutbox_replays_event_id ON openoutbox_replays (event_id);
