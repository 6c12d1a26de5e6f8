-- What the console shows, a page at a time. Each page is read from where the one before ended, so that it costs the same
-- at any depth. The tenant must reach the planner as a constant, so never prepare these.

-- name: tenants
-- Tenants in the order of their ids, after one of them. Tags: after. Index: none, the catalogue is small. Locks: nothing.
SELECT SUBSTRING(partition.relname FROM 7)::UUID AS tenant
FROM pg_catalog.pg_class AS partition
INNER JOIN pg_catalog.pg_inherits AS link ON partition.oid = link.inhrelid
WHERE
    partition.relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = 'public.event'::REGCLASS)
    AND partition.relkind = 'r' AND NOT link.inhdetachpending
    AND partition.relname ~ '^event_[0-9a-f]{32}$'
    AND partition.relname > 'event_' || REPLACE(%(after)s::UUID::TEXT, '-', '') --? after
ORDER BY partition.relname
LIMIT %(limit)s::INT;

-- name: streams
-- A tenant's streams in the order of their ids, after one of them, each with its newest event. Two looks into the index
-- for each stream, however many events it has. Tags: after.
-- Index: the partition's (TenantId, StreamId, Version). Locks: nothing.
WITH RECURSIVE page AS (
    (
        SELECT StreamId, 1 AS Nth
        FROM public.event
        WHERE
            TenantId = %(tenant)s::UUID
            AND StreamId > %(after)s::UUID --? after
        ORDER BY StreamId
        LIMIT 1
    )
    UNION ALL
    SELECT following.StreamId, page.Nth + 1
    FROM page
    CROSS JOIN LATERAL (
        SELECT event.StreamId
        FROM public.event
        WHERE event.TenantId = %(tenant)s::UUID AND event.StreamId > page.StreamId
        ORDER BY event.StreamId
        LIMIT 1
    ) AS following
    WHERE page.Nth < %(limit)s::INT
)

SELECT page.StreamId, newest.Version, newest.SequenceNum, newest.Type, newest.LogDate
FROM page
CROSS JOIN LATERAL (
    SELECT event.Version, event.SequenceNum, LEFT(event.Type, 4097) AS Type, event.LogDate
    FROM public.event
    WHERE event.TenantId = %(tenant)s::UUID AND event.StreamId = page.StreamId
    ORDER BY event.Version DESC
    LIMIT 1
) AS newest
ORDER BY page.StreamId;

-- name: events
-- A stream's events, newest first, below a version. The row with which the page would have too many bytes ends it; there
-- is at least one. Types are cut. Tags: data, to read the bodies. Index: the partition's (TenantId, StreamId, Version).
-- Locks: nothing.
SELECT Version, SequenceNum, Type, LogDate, Meta, Data, Bytes
FROM (
    SELECT
        listed.*,
        listed.Bytes + COALESCE(OCTET_LENGTH(listed.Meta), 0) AS Weight,
        SUM(listed.Bytes + COALESCE(OCTET_LENGTH(listed.Meta), 0)) OVER (ORDER BY listed.Version DESC) AS WeightSoFar
    FROM (
        SELECT
            Version,
            SequenceNum,
            LEFT(Type, 4097) AS Type,
            LogDate,
            Meta::TEXT AS Meta, --? data
            Data::TEXT AS Data, --? data
            -- NULL AS Meta, --? !data
            -- NULL AS Data, --? !data
            COALESCE(OCTET_LENGTH(Data::TEXT), 0) AS Bytes
        FROM public.event
        WHERE
            TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID
            AND Version < %(before)s::BIGINT
        ORDER BY Version DESC
        LIMIT %(limit)s::INT
    ) AS listed
) AS counted
WHERE WeightSoFar - Weight <= %(most_bytes)s::BIGINT
ORDER BY Version DESC;
