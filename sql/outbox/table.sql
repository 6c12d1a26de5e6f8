-- What the catalog says about the outbox table; relays and checks ask it at the start.

-- name: describe
-- What a name is, for the check at the start. Parameters: table (quoted as in SQL). Catalog only; locks nothing.
-- Result: kind (pg_class.relkind), whether this role may SELECT, its columns, those that this role may UPDATE, and
-- whether this role may DELETE. No row when there is no such relation.
SELECT
    relation.relkind::text,
    HAS_TABLE_PRIVILEGE(relation.oid, 'SELECT'),
    ARRAY_AGG(attribute.attname::text ORDER BY attribute.attnum),
    ARRAY_AGG(attribute.attname::text ORDER BY attribute.attnum)
    FILTER (WHERE HAS_COLUMN_PRIVILEGE(relation.oid, attribute.attnum, 'UPDATE')),
    HAS_TABLE_PRIVILEGE(relation.oid, 'DELETE')
FROM pg_catalog.pg_class AS relation
INNER JOIN pg_catalog.pg_attribute AS attribute
    ON relation.oid = attribute.attrelid AND attribute.attnum > 0 AND NOT attribute.attisdropped
WHERE relation.oid = TO_REGCLASS(%(table)s)
GROUP BY relation.oid, relation.relkind;

-- name: order_indexes
-- Which of some indexes a table has, and whether they are valid. Catalog only, locks nothing.
-- Parameters: table (quoted), names. Result: name, valid.
SELECT relation.relname::text, listed.indisvalid
FROM pg_catalog.pg_index AS listed
INNER JOIN pg_catalog.pg_class AS relation ON listed.indexrelid = relation.oid
WHERE listed.indrelid = TO_REGCLASS(%(table)s::text) AND relation.relname = ANY(%(names)s);

-- name: row_security
-- Whether policies of row-level security may hide rows of the table from this role. Catalog only, locks nothing.
-- Parameters: table (quoted).
SELECT ROW_SECURITY_ACTIVE(TO_REGCLASS(%(table)s::text)::oid);

-- name: refusing_indexes
-- Which indexes may refuse a row with a new event_id: unique ones without this column, and those of exclusion constraints.
-- ON CONFLICT DO NOTHING skips such a row as if its event existed. Catalog only, locks nothing.
-- Parameters: table (quoted). Result: name.
SELECT index.indexrelid::regclass::text
FROM pg_catalog.pg_index AS index
INNER JOIN pg_catalog.pg_attribute AS id ON index.indrelid = id.attrelid AND id.attname = 'event_id'
WHERE
    index.indrelid = TO_REGCLASS(%(table)s::text)
    AND (
        index.indisexclusion
        OR index.indisunique AND id.attnum <> ALL((index.indkey::int2 [])[0:index.indnkeyatts - 1])
    )
ORDER BY index.indexrelid;

-- name: surprises
-- What the table is besides a plain one. Catalog only; locks nothing. Parameters: table (quoted).
-- Result: kind (unlogged, child, parent, published; trigger, rule, policy, where it may keep a row as it is), and the name
-- of the child, the parent, the publication, the trigger, the rule or the policy, quoted.
SELECT 'unlogged', '' FROM pg_catalog.pg_class
WHERE oid = TO_REGCLASS(%(table)s::text) AND relpersistence = 'u'
UNION ALL
SELECT 'child', inhrelid::regclass::text FROM pg_catalog.pg_inherits
WHERE inhparent = TO_REGCLASS(%(table)s::text)
UNION ALL
SELECT 'parent', inhparent::regclass::text FROM pg_catalog.pg_inherits
WHERE inhrelid = TO_REGCLASS(%(table)s::text)
UNION ALL
SELECT 'trigger', QUOTE_IDENT(tgname) FROM pg_catalog.pg_trigger
WHERE
    tgrelid = TO_REGCLASS(%(table)s::text)
    AND NOT tgisinternal
    AND tgenabled IN ('O', 'A')
    AND tgtype & 3 = 3  -- BEFORE, FOR EACH ROW
    AND tgtype & 24 <> 0  -- UPDATE or DELETE
UNION ALL
SELECT 'rule', QUOTE_IDENT(rulename) FROM pg_catalog.pg_rewrite
WHERE ev_class = TO_REGCLASS(%(table)s::text) AND ev_type <> '1' AND ev_enabled IN ('O', 'A')
UNION ALL
SELECT 'policy', QUOTE_IDENT(polname) FROM pg_catalog.pg_policy
WHERE polrelid = TO_REGCLASS(%(table)s::text) AND NOT polpermissive
UNION ALL
SELECT 'published', publication.pubname::text
FROM pg_catalog.pg_class AS relation
INNER JOIN pg_catalog.pg_namespace AS room ON relation.relnamespace = room.oid
INNER JOIN pg_catalog.pg_publication_tables AS published
    ON room.nspname = published.schemaname AND relation.relname = published.tablename
INNER JOIN pg_catalog.pg_publication AS publication ON published.pubname = publication.pubname
WHERE
    relation.oid = TO_REGCLASS(%(table)s::text)
    AND (publication.pubupdate OR publication.pubdelete)
    AND relation.relreplident <> 'f'
    AND NOT EXISTS (
        SELECT 1 FROM pg_catalog.pg_index AS index
        WHERE
            index.indrelid = relation.oid
            AND (
                relation.relreplident = 'd' AND index.indisprimary
                OR relation.relreplident = 'i' AND index.indisreplident
            )
    )
ORDER BY 1, 2;

-- name: keeps_deleted
-- What may keep a row of the table from being deleted. Catalog only; locks nothing. Parameters: table (quoted).
-- Result: kind (trigger or rule) and quoted name of each BEFORE trigger for each row and INSTEAD rule for DELETE.
SELECT 'trigger', QUOTE_IDENT(tgname) FROM pg_catalog.pg_trigger
WHERE
    tgrelid = TO_REGCLASS(%(table)s::text)
    AND NOT tgisinternal
    AND tgenabled IN ('O', 'A')
    AND tgtype & 11 = 11  -- BEFORE DELETE, FOR EACH ROW
UNION ALL
SELECT 'rule', QUOTE_IDENT(rulename) FROM pg_catalog.pg_rewrite
WHERE ev_class = TO_REGCLASS(%(table)s::text) AND ev_type = '4' AND is_instead AND ev_enabled IN ('O', 'A')
ORDER BY 1, 2;

-- name: ping
-- Does the server answer, does it take writes, and which optional tables are there? Catalog only, locks nothing.
-- Parameters: relays, pauses, series, outbox (names, quoted). Result: read only; whether there is a list of relays, pauses, a
-- series; whether a BEFORE trigger may leave a row as it was that counts as written.
SELECT
    PG_IS_IN_RECOVERY() OR CURRENT_SETTING('transaction_read_only')::boolean,
    TO_REGCLASS(%(relays)s::text) IS NOT NULL,
    TO_REGCLASS(%(pauses)s::text) IS NOT NULL,
    TO_REGCLASS(%(series)s::text) IS NOT NULL,
    EXISTS (
        SELECT FROM pg_catalog.pg_trigger
        WHERE tgrelid = TO_REGCLASS(%(outbox)s::text) AND tgenabled IN ('O', 'A') AND tgtype & 19 = 19  -- BEFORE UPDATE, FOR EACH ROW
    );
