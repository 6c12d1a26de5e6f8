-- Entries that could not be written, as ASCII JSON, and why: for a person to look at.
CREATE TABLE IF NOT EXISTS event_log_quarantine (
    quarantined_at DateTime64(3, 'UTC') DEFAULT now64(3),
    reason String,
    entry String
)
ENGINE = MergeTree
ORDER BY quarantined_at
