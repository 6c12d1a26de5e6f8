-- Which outbox it is, what this role may do with it, and the database's time. No row where there is no such table.
-- Parameters: outbox, its quoted name. Catalog only, locks nothing.
SELECT
    CURRENT_DATABASE()::text || '/' || namespace.nspname::text || '.' || relation.relname::text,
    HAS_TABLE_PRIVILEGE(relation.oid, 'SELECT'),
    HAS_TABLE_PRIVILEGE(relation.oid, 'INSERT'),
    HAS_TABLE_PRIVILEGE(relation.oid, 'DELETE'),
    HAS_ANY_COLUMN_PRIVILEGE(relation.oid, 'UPDATE'),
    NOW()
FROM pg_catalog.pg_class AS relation
INNER JOIN pg_catalog.pg_namespace AS namespace ON relation.relnamespace = namespace.oid
WHERE relation.oid = TO_REGCLASS(%(outbox)s::text)
