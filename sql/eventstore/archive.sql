-- Exporting a tenant and importing it again.

-- name: export
-- One tenant's events as JSON, oldest first. PostgreSQL's own text keeps every digit of every number. A row whose
-- Data is NULL has no member data, which is not the same as a JSON null. Index: the partition's primary key.
SELECT
    (
        JSONB_BUILD_OBJECT(
            'sequence_num', SequenceNum, 'stream_id', StreamId, 'version', Version,
            'type', Type, 'meta', Meta, 'log_date', LogDate
        )
        || CASE WHEN Data IS NULL THEN '{}'::JSONB ELSE JSONB_BUILD_OBJECT('data', Data) END
    )::TEXT
FROM public.event
WHERE TenantId = %(tenant)s::UUID
ORDER BY SequenceNum;

-- name: has_events
-- Whether a tenant has any event. Index: the partition's primary key.
SELECT EXISTS (SELECT 1 FROM public.event WHERE TenantId = %(tenant)s::UUID);

-- name: import
-- Adds exported events in their order, with their versions and times and with new positions.
-- Locks: as a plain INSERT into the table.
INSERT INTO public.event (TenantId, StreamId, Version, Type, Meta, Data, LogDate)
SELECT
    %(tenant)s::UUID, (line ->> 'stream_id')::UUID, (line ->> 'version')::INT,
    line ->> 'type', line -> 'meta', line -> 'data', (line ->> 'log_date')::TIMESTAMPTZ
FROM UNNEST(%(lines)s::JSONB[]) WITH ORDINALITY AS exported (line, n)
ORDER BY n;
