-- What migrate reads and creates first. Tables are below migrations/, functions in definitions.sql.

-- name: schema_exists
-- Whether the schema exists; checked first, because CREATE SCHEMA IF NOT EXISTS needs a right even when it exists.
SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %(schema)s);

-- name: create_schema
-- The schema that holds the delivery log; the log owns everything in it. Locks: the new schema.
CREATE SCHEMA IF NOT EXISTS openoutbox_log;

-- name: adopted_version
-- The version of a log without a record of its migrations: 1 when it exists, 0 for a new one. Locks: nothing.
SELECT CASE WHEN to_regclass('openoutbox_log.attempts') IS NULL THEN 0 ELSE 1 END;
