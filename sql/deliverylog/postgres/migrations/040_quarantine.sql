-- Entries that could not be written, as ASCII JSON, and why: for a person to look at. Never read by the log itself.
CREATE TABLE IF NOT EXISTS openoutbox_log.quarantine (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    quarantined_at timestamptz NOT NULL DEFAULT now(),
    reason text NOT NULL,
    entry text NOT NULL
)
