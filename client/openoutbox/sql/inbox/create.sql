-- The inbox: which consumer has handled which event. Made by relay-cli inbox migrate or the application, in the consumer's own database.
-- To undo: DROP TABLE openoutbox_inbox; a message that comes again then has its effect again.

-- name: table
-- One row, called a mark, for each event that a consumer has handled. Locks: none, the table is new.
CREATE TABLE openoutbox_inbox (
    consumer TEXT NOT NULL,
    event_id TEXT NOT NULL,
    received_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    PRIMARY KEY (consumer, event_id)
);

-- name: index
-- For prune and stats, which read by age. Locks: none, the table is new.
CREATE INDEX ON openoutbox_inbox (received_at);

-- name: tries
-- One row for each event whose handler failed, and each dead letter: for inbox.process. Locks: none, the table is new.
-- To undo: DROP TABLE openoutbox_inbox_tries, which has the only copy of what was set aside.
CREATE TABLE openoutbox_inbox_tries (
    consumer TEXT NOT NULL,
    event_id TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'trying' CHECK (state IN ('trying', 'dead', 'retry')),
    begun_at TIMESTAMPTZ,
    changed_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    error TEXT,
    event_type TEXT,
    partition_key TEXT,
    payload BYTEA,
    headers JSON,
    PRIMARY KEY (consumer, event_id)
);

-- name: tries_index
-- For what lists dead letters. Locks: none, the table is new.
CREATE INDEX ON openoutbox_inbox_tries (changed_at) WHERE state <> 'trying';
