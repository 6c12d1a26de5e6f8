-- Every monthly table of the schema, with its parent if it is attached, and whether a detach was begun and not ended.
SELECT
    child.relname AS partition,
    parent.relname AS parent,
    coalesce(link.inhdetachpending, false) AS pending
FROM pg_class AS child
LEFT JOIN pg_inherits AS link ON child.oid = link.inhrelid
LEFT JOIN pg_class AS parent ON link.inhparent = parent.oid
WHERE
    child.relnamespace = 'openoutbox_log'::regnamespace
    AND child.relkind = 'r'
    AND child.relname ~ '^(events|event_destinations|attempts)_[0-9]{4}_[0-9]{2}$'
ORDER BY child.relname
