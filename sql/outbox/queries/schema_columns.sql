-- The columns of a table as migrate compares them: catalog only, locks nothing. Parameters: oid.
-- Result: name, type, NOT NULL, default (NULL when none), whether the database fills it (identity or generated).
SELECT
    attribute.attname::text,
    FORMAT_TYPE(attribute.atttypid, attribute.atttypmod),
    attribute.attnotnull,
    PG_GET_EXPR(standard.adbin, standard.adrelid),
    attribute.attidentity <> '' OR attribute.attgenerated <> ''
FROM pg_catalog.pg_attribute AS attribute
LEFT JOIN pg_catalog.pg_attrdef AS standard
    ON attribute.attrelid = standard.adrelid AND attribute.attnum = standard.adnum
WHERE attribute.attrelid = %(oid)s AND attribute.attnum > 0 AND NOT attribute.attisdropped
ORDER BY attribute.attnum
