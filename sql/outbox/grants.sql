-- The rights of each role on the outbox and its extensions, and no others: the one list, for relay-cli roles and check
-- and for the GRANT in an error. The first word of a name is the role. A statement applies where its objects exist.

-- name: writer_events
-- The application inserts what is its own: not the state of an event, and no time but the one at which it is due.
GRANT INSERT (event_id, event_type, payload, partition_key, headers, available_at) ON openoutbox_events TO app_role;

-- name: writer_same
-- To tell a repeat from another event of the same id, where sql-api is installed: it can check what it guesses of one.
GRANT EXECUTE ON FUNCTION openoutbox_same(UUID, TEXT, BYTEA) TO app_role;

-- name: relay_events
-- The relay reads events. So do relay-cli stats, list, show, replay and check.
GRANT SELECT ON openoutbox_events TO app_role;

-- name: relay_settle
-- The relay changes what it has to, and nothing that an application wrote.
GRANT UPDATE (status, attempts, last_error, available_at, locked_by, locked_at, delivered_at, updated_at)
ON openoutbox_events TO app_role;

-- name: relay_delete
-- With ON_DELIVERED=delete alone.
GRANT DELETE ON openoutbox_events TO app_role;

-- name: relay_fan_out
-- The column of the extension fan-out.
GRANT UPDATE (acknowledged_by) ON openoutbox_events TO app_role;

-- name: relay_replays
-- relay-cli replay records replays, and the delivery log tells attempts that follow one from others.
GRANT SELECT, INSERT ON openoutbox_replays TO app_role;

-- name: relay_pauses
-- The relay only reads pauses.
GRANT SELECT ON openoutbox_pauses TO app_role;

-- name: relay_relays
-- The relay writes its own row into the list of relays, and deletes those of relays that are gone.
GRANT SELECT, INSERT, UPDATE, DELETE ON openoutbox_relays TO app_role;

-- name: relay_series
-- The relay adds what it did in each minute, and deletes what is older than a week.
GRANT SELECT, INSERT, UPDATE, DELETE ON openoutbox_series TO app_role;

-- name: prune_events
-- relay-cli prune reads rows, and deletes old ones.
GRANT SELECT, DELETE ON openoutbox_events TO app_role;

-- name: prune_lock
-- PostgreSQL requires the right to update a column before it locks a row; prune updates none.
GRANT UPDATE (updated_at) ON openoutbox_events TO app_role;

-- name: reader_events
-- The reader looks: dashboards, relay-cli stats, list and show, and Spark's reconcile.
GRANT SELECT ON openoutbox_events TO app_role;

-- name: reader_pauses
-- What is paused.
GRANT SELECT ON openoutbox_pauses TO app_role;

-- name: reader_relays
-- Which relays there are.
GRANT SELECT ON openoutbox_relays TO app_role;

-- name: reader_series
-- What the relays did in each minute.
GRANT SELECT ON openoutbox_series TO app_role;

-- name: reader_changes
-- Who changed what through the console.
GRANT SELECT ON openoutbox_changes TO app_role;

-- name: operator_events
-- The operator looks as the reader does.
GRANT SELECT ON openoutbox_events TO app_role;

-- name: operator_pauses
-- The operator pauses and resumes.
GRANT SELECT, INSERT, UPDATE, DELETE ON openoutbox_pauses TO app_role;

-- name: operator_relays
-- Which relays there are.
GRANT SELECT ON openoutbox_relays TO app_role;

-- name: operator_series
-- What the relays did in each minute.
GRANT SELECT ON openoutbox_series TO app_role;

-- name: console_events
-- The console reads events.
GRANT SELECT ON openoutbox_events TO app_role;

-- name: console_change
-- The console changes events as an operator does (retry, replay, bury), and nothing that an application wrote.
GRANT UPDATE (status, attempts, last_error, available_at, delivered_at, updated_at) ON openoutbox_events TO app_role;

-- name: console_cancelled
-- The console keeps the row of an event that it cancels, once the owner has granted it DELETE on the outbox.
GRANT SELECT, INSERT ON openoutbox_cancelled TO app_role;

-- name: console_record
-- The console records what it changes.
GRANT SELECT, INSERT, UPDATE ON openoutbox_changes TO app_role;

-- name: console_replays
-- The console records what it replays.
GRANT INSERT ON openoutbox_replays TO app_role;

-- name: console_pauses
-- The console pauses and resumes.
GRANT SELECT, INSERT, UPDATE, DELETE ON openoutbox_pauses TO app_role;

-- name: console_relays
-- Which relays there are.
GRANT SELECT ON openoutbox_relays TO app_role;

-- name: console_series
-- What the relays did in each minute.
GRANT SELECT ON openoutbox_series TO app_role;
