-- The indexes that matter to migrate: those of a table, and whatever bears one of the wanted names in its schema.
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
ORDER BY relation.relname
