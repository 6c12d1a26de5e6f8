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
    )
