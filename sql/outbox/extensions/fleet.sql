-- Optional: the relays of the table, each with a row that it writes every five seconds. By it relays that deliver to
-- different destinations refuse to start beside one another, and leases are reclaimed after the longest LEASE_TIMEOUT.
-- A relay without it knows no other relay. Rows of relays that are gone are deleted by the others.
-- Column settings: what the relay runs with, by variable, secrets masked: {"BATCH_SIZE": {"value": "500", "changed": true}}.
-- To undo: DROP TABLE openoutbox_relays. Safe to run again. Locks: none, the table is new.
CREATE TABLE IF NOT EXISTS openoutbox_relays (
    instance UUID PRIMARY KEY,
    relay_id TEXT NOT NULL,
    version TEXT NOT NULL,
    host TEXT NOT NULL,
    started_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    seen_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    state TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    destination_type TEXT NOT NULL,
    destination TEXT NOT NULL,
    lease_timeout DOUBLE PRECISION NOT NULL,
    ordering TEXT NOT NULL,
    on_delivered TEXT NOT NULL,
    delivered_per_second DOUBLE PRECISION NOT NULL DEFAULT 0,
    failed_per_second DOUBLE PRECISION NOT NULL DEFAULT 0,
    in_flight BIGINT NOT NULL DEFAULT 0,
    pauses INT NOT NULL DEFAULT 0,
    settings JSONB NOT NULL DEFAULT '{}'
);
