-- Whether an extension's table is there and this user may insert into it. Catalog only, locks nothing.
-- Parameters: table (quoted). Result: one row, NULL when it is not there.
SELECT HAS_TABLE_PRIVILEGE(TO_REGCLASS(%(table)s::text), 'INSERT')
