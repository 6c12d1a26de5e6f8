-- Adds exported events in the order given, with their versions and times and with new positions.
-- Locks: as a plain INSERT into the table.
INSERT INTO public.event (TenantId, StreamId, Version, Type, Meta, Data, LogDate)
SELECT
    %(tenant)s::UUID, (line ->> 'stream_id')::UUID, (line ->> 'version')::INT,
    line ->> 'type', line -> 'meta', line -> 'data', (line ->> 'log_date')::TIMESTAMPTZ
FROM UNNEST(%(lines)s::JSONB[]) WITH ORDINALITY AS exported (line, n)
ORDER BY n
