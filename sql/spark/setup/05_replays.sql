-- What was replayed by Spark: one row for each replay. ``selection`` is what was asked for, so that a replay that is run
-- again is of the same events; ages in it count from ``started_at``.
-- Locks: none; the table is new.
CREATE TABLE IF NOT EXISTS openoutbox_spark.replays (
    replay_id UUID PRIMARY KEY,
    outbox TEXT NOT NULL,
    selection TEXT NOT NULL,
    started_at TIMESTAMPTZ NOT NULL DEFAULT NOW()
)
