-- The rights of a role for its purpose, and no others: the one list, for relay-cli roles and check. Creating and dropping
-- partitions needs the owner.

-- name: record_schema
-- To use the log's schema.
GRANT USAGE ON SCHEMA openoutbox_log TO app_role;

-- name: record_tables
-- To insert entries, and to find the ones that exist.
GRANT SELECT, INSERT ON openoutbox_log.events, openoutbox_log.event_destinations, openoutbox_log.quarantine TO app_role;

-- name: record_attempts
-- Likewise attempts, of which a repeated one gets the newer outcome.
GRANT SELECT, INSERT, UPDATE (status, code, response_data) ON openoutbox_log.attempts TO app_role;

-- name: read_schema
-- To use the log's schema.
GRANT USAGE ON SCHEMA openoutbox_log TO app_role;

-- name: read_tables
-- To read events and attempts.
GRANT SELECT ON openoutbox_log.events, openoutbox_log.event_destinations, openoutbox_log.attempts TO app_role;
