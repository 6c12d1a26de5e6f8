-- The outbox table in the catalog.

-- name: describe_outbox
-- The outbox for a write: its schema and name, its kind (relkind, NULL for a missing table), whether this role may insert,
-- which of the contract's columns it lacks, and whether event_id alone is unique. Parameters: outbox, its quoted name. Catalog only,
-- locks nothing.
SELECT
    namespace.nspname::text,
    relation.relname::text,
    relation.relkind::text,
    COALESCE(
        (
            SELECT BOOL_AND(HAS_COLUMN_PRIVILEGE(relation.oid, attribute.attnum, 'INSERT'))
            FROM pg_catalog.pg_attribute AS attribute
            WHERE
                attribute.attrelid = relation.oid
                AND attribute.attname = ANY(
                    ARRAY['event_id', 'event_type', 'partition_key', 'payload', 'headers', 'available_at']
                )
        ),
        FALSE
    ),
    ARRAY(
        SELECT required.name
        FROM UNNEST(
            ARRAY['event_id', 'event_type', 'partition_key', 'payload', 'headers', 'available_at']
        ) AS required (name)
        WHERE NOT EXISTS (
            SELECT 1
            FROM pg_catalog.pg_attribute AS attribute
            WHERE attribute.attrelid = relation.oid AND attribute.attname = required.name AND NOT attribute.attisdropped
        )
    ),
    EXISTS (
        SELECT 1
        FROM pg_catalog.pg_index AS index
        WHERE
            index.indrelid = relation.oid
            AND index.indisunique
            AND index.indisvalid
            AND index.indimmediate
            AND index.indpred IS NULL
            AND index.indnkeyatts = 1
            AND index.indkey[0] = id.attnum
    )
FROM (SELECT 1 AS one) AS always
LEFT JOIN pg_catalog.pg_class AS relation ON relation.oid = TO_REGCLASS(%(outbox)s::text)
LEFT JOIN pg_catalog.pg_namespace AS namespace ON relation.relnamespace = namespace.oid
LEFT JOIN pg_catalog.pg_attribute AS id ON relation.oid = id.attrelid AND id.attname = 'event_id';

-- name: identify_outbox
-- The identity of an outbox, the rights of this role on it, and the database's time. No row for a missing table.
-- Parameters: outbox, its quoted name. Catalog only, locks nothing.
SELECT
    CURRENT_DATABASE()::text || '/' || namespace.nspname::text || '.' || relation.relname::text,
    HAS_TABLE_PRIVILEGE(relation.oid, 'SELECT'),
    HAS_ANY_COLUMN_PRIVILEGE(relation.oid, 'INSERT'),
    HAS_TABLE_PRIVILEGE(relation.oid, 'DELETE'),
    HAS_ANY_COLUMN_PRIVILEGE(relation.oid, 'UPDATE'),
    NOW()
FROM pg_catalog.pg_class AS relation
INNER JOIN pg_catalog.pg_namespace AS namespace ON relation.relnamespace = namespace.oid
WHERE relation.oid = TO_REGCLASS(%(outbox)s::text);
