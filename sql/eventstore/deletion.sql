-- Deleting one stream, in short transactions of at most some versions each.

-- name: begin
-- Keeps the stream's appends waiting until the transaction ends, and allows the transaction to change stored events.
-- Locks: event_lock.
SELECT public.event_lock(%(tenant)s::UUID, %(stream)s::UUID), set_config('eventstore.changes', 'allowed', TRUE);

-- name: lowest
-- The lowest version of a stream, NULL when it has no event. Index: the partition's (TenantId, StreamId, Version).
SELECT MIN(Version) FROM public.event WHERE TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID;

-- name: delete
-- Deletes the events below a version with their rows of the feed and their ids, and records the last of them; returns
-- their number. Every append sees the record together with the deletion, so that it never writes a deleted version again.
-- Index: the partition's (TenantId, StreamId, Version); the primary keys of the others. Locks: the rows deleted.
WITH deleted AS (
    DELETE FROM public.event
    WHERE TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID AND Version < %(before)s::BIGINT
    RETURNING SequenceNum, Version
),

unlisted AS (
    DELETE FROM public.event_feed WHERE SequenceNum IN (SELECT SequenceNum FROM deleted)
),

forgotten AS (
    DELETE FROM public.event_id
    WHERE TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID AND Version IN (SELECT Version FROM deleted)
),

recorded AS (
    INSERT INTO public.event_tombstone AS known (TenantId, StreamId, Version)
    SELECT %(tenant)s::UUID, %(stream)s::UUID, MAX(Version) FROM deleted HAVING COUNT(*) > 0
    ON CONFLICT (TenantId, StreamId) DO UPDATE
    SET Version = GREATEST(known.Version, EXCLUDED.Version), DeletedAt = EXCLUDED.DeletedAt
)

SELECT COUNT(*) FROM deleted;
