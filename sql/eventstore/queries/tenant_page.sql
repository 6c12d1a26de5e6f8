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
ORDER BY SequenceNum
