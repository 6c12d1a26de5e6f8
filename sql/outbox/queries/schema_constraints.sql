-- The primary key and the check constraints of a table: catalog only, locks nothing. Parameters: oid.
-- Result: kind ('p' or 'c'), name, definition.
SELECT
    contype::text,
    conname::text,
    PG_GET_CONSTRAINTDEF(oid)
FROM pg_catalog.pg_constraint
WHERE conrelid = %(oid)s AND contype IN ('p', 'c')
ORDER BY conname
