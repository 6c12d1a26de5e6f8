-- One stream's events, in order. A limit of NULL is none.
-- Index: the partition's (TenantId, StreamId, Version). Locks: nothing.
SELECT SequenceNum, TenantId, StreamId, Version, Type, Meta, Data, LogDate
FROM public.event
WHERE
    TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID
    AND Version >= %(from_version)s::INT AND Version <= %(to_version)s::INT
ORDER BY Version
LIMIT %(limit)s::BIGINT
