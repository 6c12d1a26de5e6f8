-- The event types at a glance: the pace, the latency, what waits and what is dead, each from a bounded sample.

-- name: delivered
-- The newest MOST events that were delivered in the last hour, by type: the events of the hour and of its last minute, and
-- the median and the 99th percentile of the seconds from created to delivered (an infinite time has none).
-- Index: idx_openoutbox_prune_delivered, MOST entries at most, after claim:guard in its transaction. Locks: none.
-- Parameters: most, types. Result: type, hour, minute, p50, p99; rows in the sample, and the seconds that it covers.
WITH newest AS MATERIALIZED (
    SELECT
        LEFT(event_type, 4097) AS event_type,
        delivered_at,
        CASE WHEN ISFINITE(created_at) THEN EXTRACT(EPOCH FROM delivered_at - created_at)::float8 END AS seconds
    FROM openoutbox_events
    WHERE status = 'DELIVERED' AND delivered_at > NOW() - INTERVAL '1 hour' AND delivered_at <= NOW()
    ORDER BY delivered_at DESC
    LIMIT (SELECT %(most)s::bigint)
)

SELECT
    event_type,
    COUNT(*) AS events,
    COUNT(*) FILTER (WHERE delivered_at > NOW() - INTERVAL '1 minute'),
    PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY seconds),
    PERCENTILE_CONT(0.99) WITHIN GROUP (ORDER BY seconds),
    (SUM(COUNT(*)) OVER ())::bigint,
    EXTRACT(EPOCH FROM NOW() - MIN(MIN(delivered_at)) OVER ())::float8
FROM newest
GROUP BY event_type
ORDER BY events DESC, event_type ASC
LIMIT (SELECT %(types)s::bigint);

-- name: waiting
-- Of the events that wait, the MOST that are due first, by type: how many, how many of these after a failed attempt, and
-- for how many seconds the first one has been due. This age is exact for each type that it returns.
-- Index: idx_openoutbox_processing_queue, MOST entries at most, after claim:guard in its transaction. Locks: none.
-- Parameters: most, types. Result: type, events, retrying, seconds (NULL when none is due); rows in the sample.
WITH first AS MATERIALIZED (
    SELECT
        LEFT(event_type, 4097) AS event_type,
        available_at,
        attempts
    FROM openoutbox_events
    WHERE status = 'PENDING'
    ORDER BY available_at ASC
    LIMIT (SELECT %(most)s::bigint)
)

SELECT
    event_type,
    COUNT(*) AS events,
    COUNT(*) FILTER (WHERE attempts > 0),
    EXTRACT(
        EPOCH FROM NOW() - MIN(available_at) FILTER (WHERE available_at <= NOW() AND ISFINITE(available_at))
    )::float8,
    (SUM(COUNT(*)) OVER ())::bigint
FROM first
GROUP BY event_type
ORDER BY events DESC, event_type ASC
LIMIT (SELECT %(types)s::bigint);

-- name: dead
-- The newest MOST dead events by type: how many, and how many of these died in the last hour and minute.
-- Index: idx_openoutbox_prune_dead, MOST entries at most, after claim:guard in its transaction. Locks: none.
-- Parameters: most, types. Result: type, events, hour, minute; rows in the sample, and the seconds that it covers.
WITH newest AS MATERIALIZED (
    SELECT
        LEFT(event_type, 4097) AS event_type,
        updated_at
    FROM openoutbox_events
    WHERE status = 'DEAD'
    ORDER BY updated_at DESC
    LIMIT (SELECT %(most)s::bigint)
)

SELECT
    event_type,
    COUNT(*) AS events,
    COUNT(*) FILTER (WHERE updated_at > NOW() - INTERVAL '1 hour'),
    COUNT(*) FILTER (WHERE updated_at > NOW() - INTERVAL '1 minute'),
    (SUM(COUNT(*)) OVER ())::bigint,
    EXTRACT(EPOCH FROM NOW() - MIN(MIN(updated_at) FILTER (WHERE ISFINITE(updated_at))) OVER ())::float8
FROM newest
GROUP BY event_type
ORDER BY events DESC, event_type ASC
LIMIT (SELECT %(types)s::bigint);
