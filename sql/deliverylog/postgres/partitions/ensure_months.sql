-- Makes the partitions of every month that holds one of the instants. Needs the right to create tables in the schema.
-- Locks: the parents in SHARE UPDATE EXCLUSIVE mode, where something is missing.
SELECT openoutbox_log.ensure_month(month)
FROM unnest(%(months)s::timestamptz []) AS month
