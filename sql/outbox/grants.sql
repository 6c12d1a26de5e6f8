-- The rights of a role for its purpose, and no others. deploy/postgres/roles.sql grants the same.

-- name: prune
-- The rights of relay-cli prune: to read rows, and to delete old ones.
GRANT SELECT, DELETE ON openoutbox_events TO app_role;

-- name: prune_lock
-- PostgreSQL requires the right to update a column before it locks a row; prune updates none.
GRANT UPDATE (updated_at) ON openoutbox_events TO app_role;

-- name: read
-- The right of a role that only reads.
GRANT SELECT ON openoutbox_events TO app_role;
