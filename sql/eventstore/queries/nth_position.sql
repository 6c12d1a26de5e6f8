-- The position of the last of the next ``limit`` events up to the horizon, or the horizon where there are fewer.
-- Horizon and limit are applied as in feed_page.sql.
-- Index: the feed's primary key, in order; what is filtered out is read. Locks: nothing.
SELECT
    COALESCE(
        MAX(next_events.SequenceNum) FILTER (
            WHERE next_events.Nth = %(limit)s::BIGINT AND next_events.SequenceNum <= %(horizon)s::BIGINT
        ),
        %(horizon)s::BIGINT
    )
FROM (
    SELECT SequenceNum, ROW_NUMBER() OVER (ORDER BY SequenceNum) AS Nth
    FROM public.event_feed
    WHERE
        SequenceNum > %(after)s::BIGINT
        AND (%(types)s::TEXT[] IS NULL OR Type = ANY(%(types)s::TEXT[]))
        AND (%(tenants)s::UUID[] IS NULL OR TenantId = ANY(%(tenants)s::UUID[]))
    ORDER BY SequenceNum
    LIMIT (SELECT %(limit)s::BIGINT)
) AS next_events
