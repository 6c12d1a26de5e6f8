-- Events by position, of a few tenants. The tenants must reach the planner as constants, so never prepare this.
-- Index: the partitions' primary keys. Locks: nothing.
SELECT SequenceNum, TenantId, StreamId, Version, Type, Meta, Data, LogDate
FROM public.event
WHERE TenantId = ANY(%(tenants)s::UUID[]) AND SequenceNum = ANY(%(positions)s::BIGINT[])
