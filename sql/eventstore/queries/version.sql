-- The version of one stream, 0 when it has no event. Index: the partition's (TenantId, StreamId, Version).
SELECT COALESCE(MAX(Version), 0) FROM public.event WHERE TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID
