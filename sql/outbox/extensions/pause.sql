-- Optional: pauses, which every relay of the table obeys within two seconds. A relay without it delivers everything.
-- A row is a pause: of the whole outbox, of one event type, or of the types that begin with a prefix. Rows whose time is
-- over are ignored, and deleted by the next pause or resume. Relays only read it.
-- To undo: DROP TABLE openoutbox_pauses, which resumes everything. Safe to run again. Locks: none, the table is new.
CREATE TABLE IF NOT EXISTS openoutbox_pauses (
    scope TEXT NOT NULL CHECK (scope IN ('all', 'type', 'prefix')),
    name TEXT NOT NULL DEFAULT '',
    until TIMESTAMPTZ CHECK (until < '9999-12-31'),
    paused_by TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    since TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    PRIMARY KEY (scope, name),
    CHECK ((scope = 'all') = (name = ''))
);
