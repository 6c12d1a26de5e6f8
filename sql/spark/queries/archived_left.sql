-- Those of the given rows that are in the outbox. Asked after remove_archived, in a statement of its own: what a
-- transaction that was waited for has deleted is not among them.
-- Index: the primary key. Locks nothing. Parameters: ids.
SELECT event_id::text FROM openoutbox_events
WHERE event_id = ANY(%(ids)s::uuid [])
