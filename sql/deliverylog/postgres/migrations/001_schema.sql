-- The schema that holds the delivery log; the log owns everything in it.
-- Locks: nothing but the name.
CREATE SCHEMA IF NOT EXISTS openoutbox_log
