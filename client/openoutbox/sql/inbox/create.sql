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
