-- The record of the migrations that a room has applied to its schema. The room chooses the schema and the table's name.

-- name: lock
-- Lets one migrate at a time work on a schema, until its transaction ends. Does not wait.
-- Result: whether the lock is held now.
SELECT PG_TRY_ADVISORY_XACT_LOCK(HASHTEXTEXTENDED('public.schema_migration', 0));

-- name: lock_timeout
-- Bounds the wait for each lock of a migration: writers queue behind one that waits. Touches no table.
SELECT SET_CONFIG('lock_timeout', %(seconds)s::TEXT || 's', TRUE);

-- name: exists
-- Whether the schema has a record of its migrations. Locks: nothing.
SELECT TO_REGCLASS('public.schema_migration') IS NOT NULL;

-- name: create
-- The record: one row for each applied migration. Locks: the new table.
CREATE TABLE IF NOT EXISTS public.schema_migration (
    Number INT PRIMARY KEY,
    Name TEXT NOT NULL,
    AppliedAt TIMESTAMPTZ NOT NULL DEFAULT CLOCK_TIMESTAMP()
);

-- name: version
-- The number of the newest migration that was applied, 0 for none. Index: the primary key. Locks: nothing.
SELECT COALESCE(MAX(Number), 0) FROM public.schema_migration;

-- name: record
-- Records a migration as applied. Index: the primary key. Locks: the new row.
INSERT INTO public.schema_migration (Number, Name) VALUES (%(number)s::INT, %(name)s::TEXT);
