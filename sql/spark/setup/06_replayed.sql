-- Every event of every replay: written in the transaction that inserts its copy, so that it is inserted once.
-- Locks: none; the table is new.
CREATE TABLE IF NOT EXISTS openoutbox_spark.replayed (
    replay_id UUID NOT NULL,
    event_id UUID NOT NULL,
    PRIMARY KEY (replay_id, event_id)
)
