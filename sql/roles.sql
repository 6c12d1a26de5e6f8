-- What relay-cli roles asks and changes. Which rights a role has stands in the grants.sql of each room.

-- name: runner
-- Who runs it: catalog only, locks nothing. Parameters: owner (the role that is to own all), setting (the membership
-- that lets it act as that: SET, before PostgreSQL 16 MEMBER).
-- Result: this role, whether it already acts as the owner.
SELECT
    CURRENT_USER::text,
    COALESCE(
        (
            SELECT PG_HAS_ROLE(oid, 'USAGE') AND PG_HAS_ROLE(oid, %(setting)s::text)
            FROM pg_catalog.pg_roles WHERE rolname = %(owner)s::text
        ),
        (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = CURRENT_USER)
    );

-- name: existing
-- Which of some roles the server has: catalog only, locks nothing. Parameters: names.
SELECT rolname::text FROM pg_catalog.pg_roles WHERE rolname = ANY(%(names)s::text[]);

-- name: administrators
-- Who may grant membership of a role, superusers apart: catalog only, locks nothing. Parameters: role.
SELECT STRING_AGG(PG_GET_USERBYID(member)::text, ' or ' ORDER BY PG_GET_USERBYID(member))
FROM pg_catalog.pg_auth_members
WHERE admin_option AND roleid = (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = %(role)s::text);

-- name: owner_of
-- Whose an object is: catalog only, locks nothing, and needs no right on its schema. The database is its owner's, and so is
-- what pg_database_owner has. Parameters: kind (table, sequence, schema, function, procedure, database), object (quoted as in SQL).
WITH named AS (
    SELECT PARSE_IDENT(SPLIT_PART(%(object)s::text, '(', 1)) AS parts
),

owners AS (
    SELECT nspowner AS owner FROM pg_catalog.pg_namespace, named
    WHERE %(kind)s::text = 'schema' AND nspname::text = parts[1]
    UNION ALL
    SELECT proowner FROM named
    INNER JOIN pg_catalog.pg_namespace AS namespace ON namespace.nspname::text = parts[1]
    INNER JOIN pg_catalog.pg_proc AS called ON namespace.oid = called.pronamespace AND called.proname::text = parts[2]
    WHERE %(kind)s::text IN ('function', 'procedure')
    UNION ALL
    SELECT relowner FROM named
    INNER JOIN pg_catalog.pg_namespace AS namespace ON namespace.nspname::text = parts[1]
    INNER JOIN pg_catalog.pg_class AS relation
        ON namespace.oid = relation.relnamespace AND relation.relname::text = parts[2]
    WHERE %(kind)s::text IN ('table', 'sequence')
)

SELECT
    COALESCE(
        NULLIF((SELECT PG_GET_USERBYID(MIN(owner))::text FROM owners), 'pg_database_owner'),
        PG_GET_USERBYID(datdba)::text
    )
FROM pg_catalog.pg_database WHERE datname = CURRENT_DATABASE();

-- name: whole_insert
-- Whether a role was granted INSERT on every column of a table: catalog only, locks nothing.
-- Parameters: object (quoted), role.
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_class AS relation
    INNER JOIN pg_catalog.pg_namespace AS namespace ON relation.relnamespace = namespace.oid
    CROSS JOIN ACLEXPLODE(relation.relacl) AS granted
    WHERE
        ARRAY[namespace.nspname::text, relation.relname::text] = PARSE_IDENT(%(object)s::text)
        AND granted.privilege_type = 'INSERT'
        AND granted.grantee = (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = %(role)s::text)
);

-- name: foreign_objects
-- What of ours belongs to another role than the owner: catalog only, locks nothing. Sequences of a column and indexes
-- follow their table. Parameters: owner, names (of tables, sequences, functions and procedures, with schema, quoted), schemas (those
-- that are ours as a whole), outbox (likewise as names).
-- Result: the statement that gives the object to the owner, its owner now, whether that is a superuser, whether it
-- inherits rights, whether it is a member of the owner and has the rights of it, whether the object is the outbox.
WITH RECURSIVE given AS (
    SELECT PARSE_IDENT(name) AS parts FROM UNNEST(%(names)s::text[]) AS names (name)
),

ours AS (
    SELECT relation.oid, relation.relkind::text AS kind
    FROM pg_catalog.pg_class AS relation
    INNER JOIN pg_catalog.pg_namespace AS namespace ON relation.relnamespace = namespace.oid
    WHERE
        relation.relkind IN ('r', 'p', 'v', 'm', 'S')
        AND (
            namespace.nspname = ANY(%(schemas)s::text[])
            OR EXISTS (SELECT FROM given WHERE parts = ARRAY[namespace.nspname::text, relation.relname::text])
        )
    UNION
    SELECT child.oid, child.relkind::text
    FROM ours
    INNER JOIN pg_catalog.pg_inherits ON inhparent = ours.oid
    INNER JOIN pg_catalog.pg_class AS child ON inhrelid = child.oid AND child.relispartition
),

objects AS (
    SELECT
        1 AS rank,
        nspowner AS owner,
        'SCHEMA ' || QUOTE_IDENT(nspname) AS object
    FROM pg_catalog.pg_namespace WHERE nspname = ANY(%(schemas)s::text[])
    UNION ALL
    SELECT
        2,
        relation.relowner,
        CASE ours.kind
            WHEN 'S' THEN 'SEQUENCE ' WHEN 'v' THEN 'VIEW ' WHEN 'm' THEN 'MATERIALIZED VIEW ' ELSE 'TABLE '
        END || QUOTE_IDENT(namespace.nspname) || '.' || QUOTE_IDENT(relation.relname)
    FROM ours
    INNER JOIN pg_catalog.pg_class AS relation ON ours.oid = relation.oid
    INNER JOIN pg_catalog.pg_namespace AS namespace ON relation.relnamespace = namespace.oid
    WHERE NOT EXISTS (
        SELECT FROM pg_catalog.pg_depend
        WHERE
            classid = 'pg_catalog.pg_class'::REGCLASS AND objid = ours.oid AND ours.kind = 'S'
            AND refclassid = 'pg_catalog.pg_class'::REGCLASS AND deptype IN ('a', 'i')
    )
    UNION ALL
    SELECT
        3,
        called.proowner,
        CASE called.prokind WHEN 'p' THEN 'PROCEDURE ' ELSE 'FUNCTION ' END
        || QUOTE_IDENT(namespace.nspname) || '.' || QUOTE_IDENT(called.proname)
        || '(' || PG_GET_FUNCTION_IDENTITY_ARGUMENTS(called.oid) || ')'
    FROM pg_catalog.pg_proc AS called
    INNER JOIN pg_catalog.pg_namespace AS namespace ON called.pronamespace = namespace.oid
    WHERE
        called.prokind IN ('f', 'p')
        AND (
            namespace.nspname = ANY(%(schemas)s::text[])
            OR EXISTS (SELECT FROM given WHERE parts = ARRAY[namespace.nspname::text, called.proname::text])
        )
)

SELECT
    'ALTER ' || objects.object || ' OWNER TO ' || QUOTE_IDENT(%(owner)s::text),
    holder.rolname::text,
    holder.rolsuper,
    holder.rolinherit,
    COALESCE(PG_HAS_ROLE(holder.oid, owner.oid, 'MEMBER'), FALSE),
    COALESCE(PG_HAS_ROLE(holder.oid, owner.oid, 'USAGE'), FALSE),
    objects.object
    = 'TABLE ' || (SELECT STRING_AGG(QUOTE_IDENT(part), '.') FROM UNNEST(PARSE_IDENT(%(outbox)s::text)) AS parts (part))
FROM objects
INNER JOIN pg_catalog.pg_roles AS holder ON objects.owner = holder.oid
LEFT JOIN pg_catalog.pg_roles AS owner ON owner.rolname = %(owner)s::text
WHERE holder.rolname <> %(owner)s::text
ORDER BY objects.rank, objects.object;

-- name: create_role
-- None can log in: users of yours are made members of it.
CREATE ROLE app_role NOLOGIN;

-- name: acting
-- Which of some users begin each session as a role: catalog only, locks nothing. Parameters: users, role.
SELECT rolname::text FROM pg_catalog.pg_roles
WHERE rolname = ANY(%(users)s::text[]) AND 'role=' || %(role)s::text = ANY(rolconfig);

-- name: members
-- Which of some users are members of a role: catalog only, locks nothing. Parameters: users, role.
SELECT member.rolname::text
FROM pg_catalog.pg_roles AS member
INNER JOIN pg_catalog.pg_roles AS role ON role.rolname = %(role)s::text
WHERE member.rolname = ANY(%(users)s::text[]) AND PG_HAS_ROLE(member.oid, role.oid, 'MEMBER');

-- name: act
-- Each session of the user begins as the role, through any pooler.
ALTER ROLE app_role SET role TO group_role;

-- name: membership
-- A member acts as the role, and has its rights.
GRANT group_role TO app_role;

-- name: revoke_insert
-- Every column, before some are granted.
REVOKE INSERT ON openoutbox_events FROM app_role;

-- name: use_schema
-- To use what is in the schema of the outbox or the inbox.
GRANT USAGE ON SCHEMA public TO app_role;

-- name: create_in_schema
-- The owner makes the table, the extensions and the inbox.
GRANT USAGE, CREATE ON SCHEMA public TO app_role;

-- name: create_in_database
-- The owner makes the schemas of the delivery log and of Spark's ledgers.
GRANT CREATE ON DATABASE this_database TO app_role;
