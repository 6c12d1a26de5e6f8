-- Positions and tenants of the next events up to the horizon, of all tenants or many.
-- Index: the feed's primary key; what is filtered out is read. Locks: nothing.
SELECT SequenceNum, TenantId
FROM public.event_feed
WHERE
    SequenceNum > %(after)s::BIGINT AND SequenceNum <= %(horizon)s::BIGINT
    AND (%(types)s::TEXT[] IS NULL OR Type = ANY(%(types)s::TEXT[]))
    AND (%(tenants)s::UUID[] IS NULL OR TenantId = ANY(%(tenants)s::UUID[]))
ORDER BY SequenceNum
LIMIT %(limit)s::INT
