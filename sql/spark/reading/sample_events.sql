-- Ids of a sample of the rows that Spark's filters want, from ``percent`` of the table's pages: between them the ranges
-- are cut, so that neither holes nor filters make one task's share larger than the others'. The conditions are those of
-- events.sql. Index: none; reads the sampled pages. Locks: ACCESS SHARE.
SELECT event_id
FROM openoutbox_events TABLESAMPLE SYSTEM (%(percent)s)
WHERE
    (%(event_id_in)s::uuid [] IS NULL OR event_id = ANY(%(event_id_in)s::uuid []))
    AND (%(event_id_from)s::uuid IS NULL OR event_id >= %(event_id_from)s::uuid)
    AND (%(event_id_below)s::uuid IS NULL OR event_id < %(event_id_below)s::uuid)
    AND (%(status_in)s::text [] IS NULL OR status = ANY(%(status_in)s::text []))
    AND (%(status_not)s::text [] IS NULL OR status <> ALL(%(status_not)s::text []))
    AND (%(event_type_in)s::text [] IS NULL OR event_type = ANY(%(event_type_in)s::text []))
    AND (%(event_type_not)s::text [] IS NULL OR event_type <> ALL(%(event_type_not)s::text []))
    AND (%(event_type_prefix)s::text IS NULL OR STARTS_WITH(event_type, %(event_type_prefix)s::text))
    AND (%(partition_key_in)s::text [] IS NULL OR partition_key = ANY(%(partition_key_in)s::text []))
    AND (%(partition_key_not)s::text [] IS NULL OR partition_key <> ALL(%(partition_key_not)s::text []))
    AND (%(partition_key_null)s::boolean IS NULL OR (partition_key IS NULL) = %(partition_key_null)s::boolean)
    AND (%(created_at_from)s::timestamptz IS NULL OR created_at >= %(created_at_from)s::timestamptz)
    AND (%(created_at_below)s::timestamptz IS NULL OR created_at < %(created_at_below)s::timestamptz)
    AND (%(updated_at_from)s::timestamptz IS NULL OR updated_at >= %(updated_at_from)s::timestamptz)
    AND (%(updated_at_below)s::timestamptz IS NULL OR updated_at < %(updated_at_below)s::timestamptz)
    AND (%(available_at_from)s::timestamptz IS NULL OR available_at >= %(available_at_from)s::timestamptz)
    AND (%(available_at_below)s::timestamptz IS NULL OR available_at < %(available_at_below)s::timestamptz)
    AND (%(delivered_at_from)s::timestamptz IS NULL OR delivered_at >= %(delivered_at_from)s::timestamptz)
    AND (%(delivered_at_below)s::timestamptz IS NULL OR delivered_at < %(delivered_at_below)s::timestamptz)
    AND (%(delivered_at_null)s::boolean IS NULL OR (delivered_at IS NULL) = %(delivered_at_null)s::boolean)
ORDER BY event_id
