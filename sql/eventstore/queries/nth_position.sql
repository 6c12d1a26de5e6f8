-- The position of the last of the next ``limit`` events up to the horizon, or the horizon where there are fewer.
-- Index: the feed's primary key; what is filtered out is read. Locks: nothing.
SELECT COALESCE(MAX(next_events.SequenceNum) FILTER (WHERE next_events.Nth = %(limit)s::BIGINT), %(horizon)s::BIGINT)
FROM (
    SELECT SequenceNum, ROW_NUMBER() OVER (ORDER BY SequenceNum) AS Nth
    FROM public.event_feed
    WHERE
        SequenceNum > %(after)s::BIGINT AND SequenceNum <= %(horizon)s::BIGINT
        AND (%(types)s::TEXT[] IS NULL OR Type = ANY(%(types)s::TEXT[]))
        AND (%(tenants)s::UUID[] IS NULL OR TenantId = ANY(%(tenants)s::UUID[]))
    ORDER BY SequenceNum
    LIMIT %(limit)s::BIGINT
) AS next_events
