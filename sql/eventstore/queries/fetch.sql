-- The events of a page, of a few of its tenants. The page has every wanted event of these tenants up to its last
-- position, so that a range finds them. The tenants must reach the planner as constants, so never prepare this.
-- Index: the partitions' primary keys. Locks: nothing.
SELECT SequenceNum, TenantId, StreamId, Version, Type, Meta, Data, LogDate
FROM public.event
WHERE
    TenantId = ANY(%(tenants)s::UUID[])
    AND SequenceNum > %(after)s::BIGINT AND SequenceNum <= %(last)s::BIGINT
    AND (%(types)s::TEXT[] IS NULL OR Type = ANY(%(types)s::TEXT[]))
