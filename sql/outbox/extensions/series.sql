-- Optional: what the relays did in each minute of the last 7 days, by event type, and the lag: each adds its counts once a
-- minute. Without it the console's timeline has the deliveries that the outbox still holds, and no failures and no lag.
-- The row of each minute with an empty type has what the types without a row of their own did; a minute without that row is
-- one in which no relay counted. A relay gives the five types with the most events of a minute their own rows.
-- Column lag: the longest age of the oldest due event that a relay has seen in that minute, in seconds.
-- To undo: DROP TABLE openoutbox_series. Safe to run again. Locks: none, the table is new.
CREATE TABLE IF NOT EXISTS openoutbox_series (
    minute TIMESTAMPTZ NOT NULL,
    event_type TEXT NOT NULL,
    delivered BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    dead BIGINT NOT NULL,
    lag DOUBLE PRECISION NOT NULL DEFAULT 0,
    PRIMARY KEY (minute, event_type)
);
