-- A table as a reader needs it: its kind (relkind, NULL when there is no such table), which of the wanted columns it
-- lacks, whether this role may read it, and its size in pages. Parameters: relation, its quoted name; columns.
-- Catalog only, locks nothing.
SELECT
    relation.relkind::text,
    ARRAY(
        SELECT wanted.name
        FROM UNNEST(%(columns)s::text []) AS wanted (name)
        WHERE NOT EXISTS (
            SELECT 1
            FROM pg_catalog.pg_attribute AS attribute
            WHERE attribute.attrelid = relation.oid AND attribute.attname = wanted.name AND NOT attribute.attisdropped
        )
    ),
    COALESCE(HAS_TABLE_PRIVILEGE(relation.oid, 'SELECT'), FALSE),
    COALESCE(
        (
            PG_RELATION_SIZE(relation.oid)
            + (SELECT COALESCE(SUM(PG_RELATION_SIZE(part.inhrelid)), 0) FROM pg_catalog.pg_inherits AS part
               WHERE part.inhparent = relation.oid)
        ) / CURRENT_SETTING('block_size')::bigint,
        0
    )::bigint
FROM (SELECT 1 AS one) AS always
LEFT JOIN pg_catalog.pg_class AS relation ON relation.oid = TO_REGCLASS(%(relation)s::text)
