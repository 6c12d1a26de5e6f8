-- Whether the schema is there; asked first, because CREATE SCHEMA IF NOT EXISTS needs a right even when it is.
SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %(schema)s)
