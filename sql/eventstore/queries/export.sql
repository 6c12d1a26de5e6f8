-- One tenant's events as JSON, oldest first. Text made by PostgreSQL keeps every digit of every number. A row whose
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
ORDER BY SequenceNum
