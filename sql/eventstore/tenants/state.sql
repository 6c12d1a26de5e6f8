-- A tenant's partition, if there is one: the bucket it hangs in (NULL when it is detached), whether detaching it was
-- interrupted. Indexes: those of the catalogue. Locks: nothing.
SELECT
    parent.relname AS bucket,
    COALESCE(link.inhdetachpending, FALSE) AS detaching
FROM pg_catalog.pg_class AS partition
LEFT JOIN pg_catalog.pg_inherits AS link ON partition.oid = link.inhrelid
LEFT JOIN pg_catalog.pg_class AS parent ON link.inhparent = parent.oid
WHERE partition.oid = TO_REGCLASS('public.event_00000000000000000000000000000000')
