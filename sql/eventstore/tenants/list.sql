-- All tenants with a partition, in the order of their ids. It reads the catalogue, not pg_partition_tree(), which
-- locks every partition. Locks: nothing.
SELECT SUBSTRING(partition.relname FROM 7)::UUID AS tenant
FROM pg_catalog.pg_class AS partition
INNER JOIN pg_catalog.pg_inherits AS link ON partition.oid = link.inhrelid
WHERE
    partition.relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = 'public.event'::REGCLASS)
    AND partition.relkind = 'r' AND NOT link.inhdetachpending
    AND partition.relname ~ '^event_[0-9a-f]{32}$'
ORDER BY partition.relname
