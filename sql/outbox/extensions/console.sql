-- Optional, for the console and its API: remembers every change that they made: who, when, what, how many events and why.
-- Without it they show everything and change nothing. A change of one event is recorded in its own transaction; a replay
-- of many is recorded before it begins, and its count grows with each batch. A cancelled event is deleted, and its row kept
-- in openoutbox_cancelled until the owner deletes it there.
-- They serve every outbox of their schema. Safe to run again. Locks: none where the tables are new.
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

ALTER TABLE openoutbox_changes ADD COLUMN IF NOT EXISTS may_have_been_sent BIGINT;

CREATE TABLE IF NOT EXISTS openoutbox_cancelled (
    outbox TEXT NOT NULL,
    event_id UUID NOT NULL,
    change_id UUID,
    event_type TEXT NOT NULL,
    partition_key TEXT,
    payload BYTEA NOT NULL,
    headers JSONB NOT NULL,
    attempts INT NOT NULL,
    last_error TEXT,
    available_at TIMESTAMPTZ NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    may_have_been_sent BOOLEAN NOT NULL,
    cancelled_at TIMESTAMPTZ NOT NULL DEFAULT NOW()
);
