-- What a client sends to append.

-- name: append
-- Appends to one stream: {first position, last position, new version}. What it uses and locks: event_append.
SELECT public.event_append(
    %(tenant)s::UUID, %(stream)s::UUID, %(expected)s::INT, %(types)s::TEXT[], %(metas)s::TEXT[], %(datas)s::TEXT[]
);

-- name: begin
-- No work: on a connection that opens transactions implicitly, any statement opens one. Locks: nothing.
SELECT 1;

-- name: version
-- The version of one stream, 0 when it has no event. Index: the partition's (TenantId, StreamId, Version).
SELECT COALESCE(MAX(Version), 0) FROM public.event WHERE TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID;
