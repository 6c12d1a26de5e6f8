-- The rights of each role on an inbox, and no others: the one list, for relay-cli roles and check. The first word of a
-- name is the role. A statement applies where its table exists.

-- name: consumer_marks
-- A consumer marks what it has handled, and may look whether an event was.
GRANT SELECT, INSERT ON openoutbox_inbox TO app_role;

-- name: consumer_tries
-- A consumer counts its tries, where inbox migrate --with dead-letters made the table.
GRANT SELECT, INSERT, UPDATE, DELETE ON openoutbox_inbox_tries TO app_role;

-- name: prune_marks
-- relay-cli inbox prune deletes old marks. PostgreSQL requires the right to update a column before it locks a row.
GRANT SELECT, DELETE, UPDATE (received_at) ON openoutbox_inbox TO app_role;

-- name: reader_marks
-- The reader counts marks.
GRANT SELECT ON openoutbox_inbox TO app_role;

-- name: reader_tries
-- The reader lists dead letters.
GRANT SELECT ON openoutbox_inbox_tries TO app_role;

-- name: operator_tries
-- The operator has dead letters tried again.
GRANT SELECT, UPDATE, DELETE ON openoutbox_inbox_tries TO app_role;

-- name: operator_marks
-- The operator skips a dead letter by a mark.
GRANT INSERT ON openoutbox_inbox TO app_role;

-- name: console_tries
-- The console lists dead letters, and does with them what the operator does.
GRANT SELECT, UPDATE, DELETE ON openoutbox_inbox_tries TO app_role;

-- name: console_marks
-- The console skips a dead letter by a mark.
GRANT INSERT ON openoutbox_inbox TO app_role;
