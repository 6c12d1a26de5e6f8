-- Which of some indexes a table has, and whether they are valid. Catalog only, locks nothing.
-- Parameters: table (quoted), names. Result: name, valid.
SELECT relation.relname::text, listed.indisvalid
FROM pg_catalog.pg_index AS listed
INNER JOIN pg_catalog.pg_class AS relation ON listed.indexrelid = relation.oid
WHERE listed.indrelid = TO_REGCLASS(%(table)s::text) AND relation.relname = ANY(%(names)s)
