-- Whether a role holds a right, for relay-cli check and roles; this user where role is NULL. Catalog only; locks nothing.
-- The answer is NULL for an object that does not exist. For this user the statement is refused (42501) where the user may
-- not use the object's schema; for a named role the object is named with its schema and looked up in the catalog, which
-- needs no right on the schema. Every statement also has the parameter role.

-- name: relation
-- A right on a table, on a column of one or on a sequence. Tags: table, column or sequence.
-- Parameters: object (quoted as in SQL), privilege; name of the column.
SELECT HAS_TABLE_PRIVILEGE( --? table
    -- SELECT HAS_COLUMN_PRIVILEGE( --? column
    -- SELECT HAS_SEQUENCE_PRIVILEGE( --? sequence
    COALESCE(%(role)s::name, CURRENT_USER),
    CASE
        WHEN %(role)s::name IS NULL THEN TO_REGCLASS(%(object)s::text)::oid
        ELSE (
            SELECT relation.oid FROM pg_catalog.pg_class AS relation
            INNER JOIN pg_catalog.pg_namespace AS namespace ON relation.relnamespace = namespace.oid
            WHERE ARRAY[namespace.nspname::text, relation.relname::text] = PARSE_IDENT(%(object)s::text)
        )
    END,
    -- %(name)s::text, --? column
    %(privilege)s::text
);

-- name: schema
-- A right on a schema. Parameters: object (quoted), privilege.
SELECT HAS_SCHEMA_PRIVILEGE(
    COALESCE(%(role)s::name, CURRENT_USER), TO_REGNAMESPACE(%(object)s::text)::oid, %(privilege)s::text
);

-- name: function
-- A right on a function. Parameters: object (quoted, with the types of its arguments), privilege.
SELECT HAS_FUNCTION_PRIVILEGE(
    COALESCE(%(role)s::name, CURRENT_USER),
    CASE
        WHEN %(role)s::name IS NULL THEN TO_REGPROCEDURE(%(object)s::text)::oid
        ELSE (
            SELECT called.oid FROM pg_catalog.pg_proc AS called
            INNER JOIN pg_catalog.pg_namespace AS namespace ON called.pronamespace = namespace.oid
            WHERE
                ARRAY[namespace.nspname::text, called.proname::text]
                = PARSE_IDENT(SPLIT_PART(%(object)s::text, '(', 1))
                AND ARRAY(SELECT UNNEST(called.proargtypes))
                = STRING_TO_ARRAY(RTRIM(SPLIT_PART(%(object)s::text, '(', 2), ')'), ',')::regtype[]::oid[]
        )
    END,
    %(privilege)s::text
);

-- name: database
-- A right on this database. Parameters: privilege.
SELECT HAS_DATABASE_PRIVILEGE(
    COALESCE(%(role)s::name, CURRENT_USER), CURRENT_DATABASE(), %(privilege)s::text
);

-- name: acts_as
-- Whether this user has the rights of a role. Parameters: holder.
SELECT PG_HAS_ROLE(%(holder)s::name, 'USAGE');

-- name: exists
-- Whether there is such a table or sequence, also where this user may not use its schema. Parameters: schema, name.
SELECT EXISTS (
    SELECT 1 FROM pg_catalog.pg_class AS relation
    WHERE
        relation.relname = %(name)s::text
        AND relation.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = %(schema)s::text)
);
