-- Positions and tenants of the next events up to the horizon, of all tenants or many. The horizon is applied to what
-- was found, and the limit hidden from the planner: before the first ANALYZE it expects a handful of events, fewer than
-- the limit, and would read and sort everything up to the horizon for each page.
-- Index: the feed's primary key, in order; what is filtered out is read. Locks: nothing.
SELECT SequenceNum, TenantId
FROM (
    SELECT SequenceNum, TenantId
    FROM public.event_feed
    WHERE
        SequenceNum > %(after)s::BIGINT
        AND (%(types)s::TEXT[] IS NULL OR Type = ANY(%(types)s::TEXT[]))
        AND (%(tenants)s::UUID[] IS NULL OR TenantId = ANY(%(tenants)s::UUID[]))
    ORDER BY SequenceNum
    LIMIT (SELECT %(limit)s::INT)
) AS next_events
WHERE SequenceNum <= %(horizon)s::BIGINT
ORDER BY SequenceNum
