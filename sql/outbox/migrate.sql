-- What migrate asks before it changes anything. What it applies is in client/openoutbox/sql/outbox/migrations.

-- name: lock
-- One migrate at a time in a database, until the transaction ends. Does not wait: a transaction that waits for a lock
-- holds a snapshot, which CREATE INDEX CONCURRENTLY of the one that holds it would wait for in turn.
-- Parameters: none. Result: whether the lock is held now. The number is "outbox" in ASCII.
SELECT PG_TRY_ADVISORY_XACT_LOCK(122550254464888);

-- name: plain_names
-- Definitions are compared as text, in which names have quotes only where they need them, whatever this role or database
-- is set to. Local to the transaction. Parameters: none.
SELECT SET_CONFIG('quote_all_identifiers', 'off', TRUE);

-- name: relation
-- What migrate finds under a name: catalog only, locks nothing.
-- Parameters: table (quoted, with its schema if given), schema (quoted) or NULL for the search path's first one.
-- Result: the table's oid and relkind (NULL when there is none), and the oid and name of the schema for a new one
-- (NULL when that schema does not exist).
SELECT
    relation.oid,
    relation.relkind::text,
    namespace.oid,
    namespace.nspname::text
FROM (SELECT 1 AS one) AS always
LEFT JOIN pg_catalog.pg_class AS relation ON relation.oid = TO_REGCLASS(%(table)s::text)
LEFT JOIN pg_catalog.pg_namespace AS namespace
    ON namespace.oid = COALESCE(
        relation.relnamespace, TO_REGNAMESPACE(COALESCE(%(schema)s::text, QUOTE_IDENT(CURRENT_SCHEMA())))
    );

-- name: columns
-- The columns of a table as migrate compares them: catalog only, locks nothing. Parameters: oid.
-- Result: name, type, NOT NULL, default (NULL when none), whether the database fills it (identity or generated).
SELECT
    attribute.attname::text,
    FORMAT_TYPE(attribute.atttypid, attribute.atttypmod),
    attribute.attnotnull,
    PG_GET_EXPR(standard.adbin, standard.adrelid),
    attribute.attidentity <> '' OR attribute.attgenerated <> ''
FROM pg_catalog.pg_attribute AS attribute
LEFT JOIN pg_catalog.pg_attrdef AS standard
    ON attribute.attrelid = standard.adrelid AND attribute.attnum = standard.adnum
WHERE attribute.attrelid = %(oid)s AND attribute.attnum > 0 AND NOT attribute.attisdropped
ORDER BY attribute.attnum;

-- name: constraints
-- The primary key and the check constraints of a table: catalog only, locks nothing. Parameters: oid.
-- Result: kind ('p' or 'c'), name, definition.
SELECT
    contype::text,
    conname::text,
    PG_GET_CONSTRAINTDEF(oid)
FROM pg_catalog.pg_constraint
WHERE conrelid = %(oid)s AND contype IN ('p', 'c')
ORDER BY conname;

-- name: indexes
-- The indexes that matter to migrate: those of a table, and what has one of the wanted names in its schema.
-- Catalog only, locks nothing. Parameters: oid (NULL for a table that is yet to be made), schema (oid), names.
-- Result: name, whether it is an index of this table, definition, valid.
SELECT
    relation.relname::text,
    COALESCE(listed.indrelid = %(oid)s, FALSE),
    COALESCE(PG_GET_INDEXDEF(relation.oid), ''),
    COALESCE(listed.indisvalid, FALSE)
FROM pg_catalog.pg_class AS relation
LEFT JOIN pg_catalog.pg_index AS listed ON relation.oid = listed.indexrelid
WHERE
    listed.indrelid = %(oid)s
    OR (relation.relnamespace = %(schema)s AND relation.relname = ANY(%(names)s))
ORDER BY relation.relname;

-- name: extension_state
-- What the optional parts of the schema change, in one row: two equal rows say that nothing was changed between them.
-- Catalog only, locks nothing. Parameters: outbox, replays, changes, cancelled, relays, pauses, series (names, quoted, with their
-- schema if given), functions (the names of ours, likewise).
-- Result: storage parameters, columns, indexes, triggers, the records of replays, of changes and of cancelled events, the list of relays, the
-- pauses, the series, the functions.
SELECT
    (SELECT reloptions::text FROM pg_catalog.pg_class WHERE oid = TO_REGCLASS(%(outbox)s::text)),
    (
        SELECT STRING_AGG(attname::text, ',' ORDER BY attnum)
        FROM pg_catalog.pg_attribute
        WHERE attrelid = TO_REGCLASS(%(outbox)s::text) AND attnum > 0 AND NOT attisdropped
    ),
    (
        SELECT STRING_AGG(indexrelid::text, ',' ORDER BY indexrelid)
        FROM pg_catalog.pg_index
        WHERE indrelid IN (TO_REGCLASS(%(outbox)s::text), TO_REGCLASS(%(replays)s::text))
    ),
    (
        SELECT STRING_AGG(PG_GET_TRIGGERDEF(oid), ',' ORDER BY tgname)
        FROM pg_catalog.pg_trigger
        WHERE tgrelid = TO_REGCLASS(%(outbox)s::text) AND NOT tgisinternal
    ),
    TO_REGCLASS(%(replays)s::text)::oid,
    TO_REGCLASS(%(changes)s::text)::oid,
    TO_REGCLASS(%(cancelled)s::text)::oid,
    TO_REGCLASS(%(relays)s::text)::oid,
    TO_REGCLASS(%(pauses)s::text)::oid,
    TO_REGCLASS(%(series)s::text)::oid,
    (
        SELECT STRING_AGG(CONCAT(prosrc, prosecdef, proconfig), ',' ORDER BY oid)
        FROM pg_catalog.pg_proc
        WHERE oid IN (SELECT TO_REGPROC(name) FROM UNNEST(%(functions)s::text[]) AS ours (name))
    );
