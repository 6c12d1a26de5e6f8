-- What migrate asks and remembers. What it makes is in schema.sql, positions_*.sql and append.sql.

-- name: lock
-- Lets one migrate at a time work, until its transaction ends.
SELECT PG_ADVISORY_XACT_LOCK(HASHTEXTEXTENDED('public.event_store', 0));

-- name: schema_exists
-- Whether the schema is there; asked first, because CREATE SCHEMA IF NOT EXISTS needs a right even when it is.
SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %(schema)s);

-- name: create_schema
-- The schema of the store, where it is not there yet. Locks: the new schema.
CREATE SCHEMA IF NOT EXISTS public;

-- name: is_made
-- Whether there is a store in the schema. Locks: nothing.
SELECT TO_REGCLASS('public.event_store') IS NOT NULL;

-- name: settings
-- What was chosen when the store was made; no row before the first migrate. Index: the primary key.
SELECT Positions, Notify FROM public.event_store;

-- name: save_settings
-- Keeps what was chosen. Index: the primary key. Locks: the row.
INSERT INTO public.event_store (Positions, Notify) VALUES (%(positions)s, %(notify)s)
ON CONFLICT (OnlyRow) DO UPDATE SET Notify = EXCLUDED.Notify;
