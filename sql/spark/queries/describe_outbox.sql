-- The outbox as Spark needs it: its kind (relkind, NULL when there is no such table), whether this role may insert, and
-- which of the contract's columns it lacks. Parameters: outbox, its quoted name. Catalog only, locks nothing.
SELECT
    relation.relkind::text,
    COALESCE(HAS_TABLE_PRIVILEGE(relation.oid, 'INSERT'), FALSE),
    ARRAY(
        SELECT wanted.name
        FROM UNNEST(
            ARRAY['event_id', 'event_type', 'partition_key', 'payload', 'headers', 'available_at']
        ) AS wanted (name)
        WHERE NOT EXISTS (
            SELECT 1
            FROM pg_catalog.pg_attribute AS attribute
            WHERE attribute.attrelid = relation.oid AND attribute.attname = wanted.name AND NOT attribute.attisdropped
        )
    )
FROM (SELECT 1 AS one) AS always
LEFT JOIN pg_catalog.pg_class AS relation ON relation.oid = TO_REGCLASS(%(outbox)s::text)
