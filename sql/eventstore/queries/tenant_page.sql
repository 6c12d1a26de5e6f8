-- The next events of one tenant up to the horizon. The tenant must reach the planner as a constant, so never prepare
-- this. Index: the partition's primary key; other types are read. Locks: nothing.
SELECT SequenceNum, TenantId, StreamId, Version, Type, Meta, Data, LogDate
FROM public.event
WHERE
    TenantId = %(tenant)s::UUID
    AND SequenceNum > %(after)s::BIGINT AND SequenceNum <= %(horizon)s::BIGINT
    AND (%(types)s::TEXT[] IS NULL OR Type = ANY(%(types)s::TEXT[]))
ORDER BY SequenceNum
LIMIT %(limit)s::INT
