-- Optional, for the console and its API: remembers every change that they made: who, when, what, how many events and why.
-- Without it they show everything and change nothing. A change of one event is recorded in its own transaction; a replay
-- of many is recorded before it begins, and its count grows with each batch.
-- One table serves every outbox of its schema. Safe to run again. Locks: none, the table is new.
CREATE TABLE IF NOT EXISTS openoutbox_changes (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    change_id UUID NOT NULL UNIQUE,
    outbox TEXT NOT NULL,
    action TEXT NOT NULL,
    selection TEXT NOT NULL,
    changed_by TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    idempotency_key TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'running',
    events BIGINT NOT NULL DEFAULT 0,
    expected BIGINT,
    error TEXT,
    started_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    CONSTRAINT openoutbox_changes_state CHECK (state IN ('running', 'complete', 'stopped', 'failed')),
    CONSTRAINT openoutbox_changes_once UNIQUE (outbox, changed_by, idempotency_key)
);
