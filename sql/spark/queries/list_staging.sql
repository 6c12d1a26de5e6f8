-- Every staging table with the run that it belongs to, if there is one: its state, its driver, and whether it has given
-- no sign of life for ``max_age`` seconds. Parameters: schema (its name, not quoted). Locks nothing.
SELECT
    relation.relname::text,
    run.run_id,
    run.state,
    run.driver,
    run.seen_at < NOW() - MAKE_INTERVAL(secs => %(max_age)s) AS silent
FROM pg_catalog.pg_class AS relation
INNER JOIN pg_catalog.pg_namespace AS namespace ON relation.relnamespace = namespace.oid
LEFT JOIN openoutbox_spark.runs AS run ON relation.relname = 'stage_' || REPLACE(run.run_id::text, '-', '')
WHERE namespace.nspname = %(schema)s AND relation.relname ~ '^stage_[0-9a-f]{32}$'
ORDER BY relation.relname
