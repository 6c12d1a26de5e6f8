-- The rights of a role for its purpose, and no others. deploy/postgres/roles.sql grants the same.

-- name: prune
-- The rights of relay-cli prune: to read rows, and to delete old ones.
GRANT SELECT, DELETE ON openoutbox_events TO app_role;

-- name: prune_lock
-- PostgreSQL requires the right to update a column before it locks a row; prune updates none.
GRANT UPDATE (updated_at) ON openoutbox_events TO app_role;

-- name: operate
-- The rights of a role that pauses and resumes. Needs the extension pause.
GRANT SELECT, INSERT, UPDATE, DELETE ON openoutbox_pauses TO app_role;

-- name: pauses
-- The right of a relay on the pauses, where the table has the extension.
GRANT SELECT ON openoutbox_pauses TO app_role;

-- name: relays
-- The rights of a relay on the list of relays, where the table has the extension.
GRANT SELECT, INSERT, UPDATE, DELETE ON openoutbox_relays TO app_role;

-- name: read
-- The right of a role that only reads.
GRANT SELECT ON openoutbox_events TO app_role;

-- name: console
-- The right of the console to read events.
GRANT SELECT ON openoutbox_events TO app_role;

-- name: console_change
-- The right of the console to change events as a relay does, and nothing that an application wrote.
GRANT UPDATE (status, attempts, last_error, available_at, delivered_at, updated_at) ON openoutbox_events TO app_role;

-- name: console_record
-- The right of the console to record what it changes.
GRANT SELECT, INSERT, UPDATE ON openoutbox_changes TO app_role;
