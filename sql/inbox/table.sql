-- What relay-cli inbox migrate asks before it makes the table. What it applies is in inbox/create.sql of openoutbox.

-- name: lock
-- Lets one migrate at a time create the inbox, until its transaction ends. Touches no table and does not wait.
-- Result: whether the lock is held now.
SELECT PG_TRY_ADVISORY_XACT_LOCK(HASHTEXTEXTENDED('openoutbox inbox', 0));

-- name: describe
-- What stands under the inbox's name. Catalog only; locks nothing. Parameters: table (quoted).
-- Result: the kind of relation, its columns with their types, the columns of the primary key, and whether an index
-- begins with received_at; no row where nothing has that name.
SELECT
    relation.relkind::text,
    ARRAY(
        SELECT attname::text || ' ' || FORMAT_TYPE(atttypid, atttypmod)
        FROM pg_catalog.pg_attribute
        WHERE attrelid = relation.oid AND attnum > 0 AND NOT attisdropped
        ORDER BY attnum
    ),
    ARRAY(
        SELECT attribute.attname::text
        FROM pg_catalog.pg_index AS key
        CROSS JOIN UNNEST(key.indkey) WITH ORDINALITY AS member (attnum, place)
        INNER JOIN pg_catalog.pg_attribute AS attribute
            ON key.indrelid = attribute.attrelid AND member.attnum = attribute.attnum
        WHERE key.indrelid = relation.oid AND key.indisprimary
        ORDER BY member.place
    ),
    EXISTS (
        SELECT 1
        FROM pg_catalog.pg_index AS key
        INNER JOIN pg_catalog.pg_attribute AS attribute
            ON key.indrelid = attribute.attrelid AND key.indkey[0] = attribute.attnum
        WHERE key.indrelid = relation.oid AND key.indisvalid AND attribute.attname = 'received_at'
    )
FROM pg_catalog.pg_class AS relation
WHERE relation.oid = TO_REGCLASS(%(table)s::text);
