-- Exporting a tenant and importing it again.

-- name: snapshot
-- The first statement of an export's transaction: all others see the store as of one moment.
SET LOCAL transaction_isolation = 'repeatable read';

-- name: export
-- One tenant's events as JSON, oldest first. PostgreSQL's own text keeps every digit of every number. A row whose
-- Data is NULL has no member data, which is not the same as a JSON null; an event without an id has no member event_id.
-- Index: the partition's primary key, and the unique key of the ids.
SELECT
    (
        JSONB_BUILD_OBJECT(
            'sequence_num', stored.SequenceNum, 'stream_id', stored.StreamId, 'version', stored.Version,
            'type', stored.Type, 'meta', stored.Meta, 'log_date', stored.LogDate
        )
        || CASE WHEN stored.Data IS NULL THEN '{}'::JSONB ELSE JSONB_BUILD_OBJECT('data', stored.Data) END
        || CASE WHEN known.EventId IS NULL THEN '{}'::JSONB ELSE JSONB_BUILD_OBJECT('event_id', known.EventId) END
    )::TEXT
FROM public.event AS stored
LEFT JOIN public.event_id AS known
    ON
        stored.TenantId = known.TenantId AND stored.StreamId = known.StreamId AND stored.Version = known.Version
WHERE stored.TenantId = %(tenant)s::UUID
ORDER BY stored.SequenceNum;

-- name: export_tombstones
-- A tenant's deleted streams with their last versions, as one JSON object. Index: the primary key.
SELECT COALESCE(JSONB_OBJECT_AGG(StreamId, Version), '{}')::TEXT
FROM public.event_tombstone
WHERE TenantId = %(tenant)s::UUID;

-- name: import_tombstones
-- Records exported deleted streams. Index: the primary key. Locks: the new rows.
INSERT INTO public.event_tombstone AS known (TenantId, StreamId, Version)
SELECT %(tenant)s::UUID, key::UUID, value::INT
FROM JSONB_EACH_TEXT(%(deleted)s::JSONB)
ON CONFLICT (TenantId, StreamId) DO UPDATE SET Version = GREATEST(known.Version, EXCLUDED.Version);

-- name: has_events
-- Whether a tenant has any event. Index: the partition's primary key.
SELECT EXISTS (SELECT 1 FROM public.event WHERE TenantId = %(tenant)s::UUID);

-- name: import
-- Adds exported events in their order, with their versions, times and ids, and with new positions.
-- Locks: as a plain INSERT into the table; the new ids.
WITH exported AS MATERIALIZED (
    SELECT line, n FROM UNNEST(%(lines)s::JSONB[]) WITH ORDINALITY AS lines (line, n)
),

identified AS (
    INSERT INTO public.event_id (TenantId, StreamId, EventId, Version)
    SELECT %(tenant)s::UUID, (line ->> 'stream_id')::UUID, (line ->> 'event_id')::UUID, (line ->> 'version')::INT
    FROM exported
    WHERE line ->> 'event_id' IS NOT NULL
)

INSERT INTO public.event (TenantId, StreamId, Version, Type, Meta, Data, LogDate)
SELECT
    %(tenant)s::UUID, (line ->> 'stream_id')::UUID, (line ->> 'version')::INT,
    line ->> 'type', line -> 'meta', line -> 'data', (line ->> 'log_date')::TIMESTAMPTZ
FROM exported
ORDER BY n;
