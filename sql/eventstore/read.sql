-- Reading one stream or one tenant.

-- name: read_stream
-- One stream's events in the order of their versions. A limit of NULL is none. Tags: forward or backward.
-- Index: the partition's (TenantId, StreamId, Version). Locks: nothing.
SELECT SequenceNum, TenantId, StreamId, Version, Type, Meta, Data, LogDate
FROM public.event
WHERE
    TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID
    AND Version >= %(from_version)s::INT AND Version <= %(to_version)s::INT
ORDER BY Version --? forward
-- ORDER BY Version DESC --? backward
LIMIT %(limit)s::BIGINT;

-- name: tenant_page
-- The next events of one tenant up to the horizon, which like the limit is applied as in feed_page.sql. The tenant must
-- reach the planner as a constant, so never prepare this.
-- Index: the partition's primary key, in order; other types are read. Locks: nothing.
SELECT SequenceNum, TenantId, StreamId, Version, Type, Meta, Data, LogDate
FROM (
    SELECT SequenceNum, TenantId, StreamId, Version, Type, Meta, Data, LogDate
    FROM public.event
    WHERE
        TenantId = %(tenant)s::UUID AND SequenceNum > %(after)s::BIGINT
        AND (%(types)s::TEXT[] IS NULL OR Type = ANY(%(types)s::TEXT[]))
    ORDER BY SequenceNum
    LIMIT (SELECT %(limit)s::INT)
) AS next_events
WHERE SequenceNum <= %(horizon)s::BIGINT
ORDER BY SequenceNum;

-- name: be_tenant
-- Makes the session one tenant's, where row-level security is on.
SELECT set_config('eventstore.tenant', %(tenant)s, FALSE);
