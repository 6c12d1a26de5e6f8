-- Monthly partitions: read, created ahead, and dropped by retention.

-- name: iso_dates
-- For the transaction that reads bounds: PostgreSQL prints them in the session's DateStyle, and only ISO output is
-- unambiguous.
SELECT set_config('datestyle', 'ISO', true);

-- name: list
-- Every partition of the three tables with its bounds, null where it has none (DEFAULT), and the tables that the
-- retention has detached and not yet dropped, which a comment marks. Partitions in other schemas and foreign tables hold
-- rows of the log as well, but are not the log's to drop.
SELECT
    child.relname AS partition,
    parent.relname AS parent,
    CASE
        WHEN bound.expression LIKE '%%FROM (MINVALUE)%%' THEN timestamptz '1970-01-01 00:00:00+00'
        ELSE (regexp_match(bound.expression, 'FROM \(''([^'']+)''\)'))[1]::timestamptz
    END AS since,
    CASE
        WHEN bound.expression LIKE '%%TO (MAXVALUE)%%' THEN timestamptz '2262-01-01 00:00:00+00'
        ELSE (regexp_match(bound.expression, 'TO \(''([^'']+)''\)'))[1]::timestamptz
    END AS until,
    link.inhdetachpending AS pending,
    child.relkind <> 'f' AND child.relnamespace = parent.relnamespace AS owned
FROM pg_class AS parent
INNER JOIN pg_inherits AS link ON parent.oid = link.inhparent
INNER JOIN pg_class AS child ON link.inhrelid = child.oid
CROSS JOIN LATERAL (SELECT pg_get_expr(child.relpartbound, child.oid) AS expression) AS bound
WHERE
    parent.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
    AND parent.relname IN ('events', 'event_destinations', 'attempts')
UNION ALL
SELECT
    child.relname,
    null,
    null,
    null,
    false,
    true
FROM pg_class AS child
WHERE
    child.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
    AND child.relkind IN ('r', 'p')
    AND NOT child.relispartition
    AND obj_description(child.oid, 'pg_class') LIKE 'openoutbox: %%'
ORDER BY 1;

-- name: ensure_months
-- Makes the partitions of every month that holds one of the instants. Needs the right to create tables in the schema.
-- Locks: the parents in SHARE UPDATE EXCLUSIVE mode, where something is missing.
SELECT openoutbox_log.ensure_month(month)
FROM unnest(%(months)s::timestamptz []) AS month;

-- name: lock_timeout
-- For the session that detaches: it gives up instead of queueing in front of writers.
SET lock_timeout = '10s';

-- name: mark
-- Before a detach: a table that is detached and has this comment was detached by the retention, and is dropped by its next run.
COMMENT ON TABLE openoutbox_log.events_2000_01 IS
'openoutbox: the retention of the delivery log detached this table and drops it. Remove this comment to keep it.';

-- name: unmark
-- After a detach that did not happen: an operator may detach the table to keep it.
COMMENT ON TABLE openoutbox_log.events_2000_01 IS NULL;

-- name: detach
-- Takes a month out of its table while readers and writers go on. Outside a transaction only.
-- Locks: the parent in SHARE UPDATE EXCLUSIVE mode; waits for the readers of that month.
ALTER TABLE openoutbox_log.events DETACH PARTITION openoutbox_log.events_2000_01 CONCURRENTLY;

-- name: detach_finalize
-- Ends a detach that was interrupted.
ALTER TABLE openoutbox_log.events DETACH PARTITION openoutbox_log.events_2000_01 FINALIZE;

-- name: drop
-- Drops a month that was detached before: it has no readers left.
DROP TABLE IF EXISTS openoutbox_log.events_2000_01;
