-- What migrate reads and stores. What it creates is below migrations/ and in definitions.sql, positions_*.sql,
-- append_function.sql and rights.sql.

-- name: schema_exists
-- Whether the schema exists; checked first, because CREATE SCHEMA IF NOT EXISTS needs a right even when it exists.
SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %(schema)s);

-- name: create_schema
-- The schema of the store, unless it exists. Locks: the new schema.
CREATE SCHEMA IF NOT EXISTS public;

-- name: exists
-- Whether the schema holds a store. Locks: nothing.
SELECT TO_REGCLASS('public.event_store') IS NOT NULL;

-- name: adopted_version
-- The version of a store without a record of its migrations: 1 when it exists, 0 for a new one. Locks: nothing.
SELECT CASE WHEN TO_REGCLASS('public.event_store') IS NULL THEN 0 ELSE 1 END;

-- name: settings
-- What was chosen when the store was created; no row before the first migrate. Index: the primary key.
SELECT Positions, Notify FROM public.event_store;

-- name: save_settings
-- Stores what was chosen. Index: the primary key. Locks: the row.
INSERT INTO public.event_store (Positions, Notify) VALUES (%(positions)s, %(notify)s)
ON CONFLICT (OnlyRow) DO UPDATE SET Notify = EXCLUDED.Notify;
