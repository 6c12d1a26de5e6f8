-- Reading one stream, one tenant or all of them.
--
-- With the tag part, a page holds the events of some hash slots only: those after the position that the slot has in the
-- array slots. The hash of a stream and its tenant is the one that hash partitions use, which every release of
-- PostgreSQL keeps.

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
-- Positions of the next events of one tenant up to the horizon, which like the limit is applied as in feed_page. The tenant must
-- reach the planner as a constant, so never prepare this.
-- Index: the partition's primary key, in order; other types are read, up to the horizon. Locks: nothing.
SELECT SequenceNum, TenantId
FROM (
    SELECT SequenceNum, TenantId
    FROM public.event
    WHERE
        TenantId = %(tenant)s::UUID AND SequenceNum > %(after)s::BIGINT
        AND SequenceNum <= (SELECT %(horizon)s::BIGINT)
        AND (%(types)s::TEXT[] IS NULL OR Type = ANY(%(types)s::TEXT[]))
        -- AND SequenceNum > (%(slots)s::BIGINT[])[(uuid_hash_extended(StreamId, uuid_hash_extended(TenantId, 0)) & 255)::INT + 1] --? part
    ORDER BY SequenceNum
    LIMIT (SELECT %(limit)s::INT)
) AS next_events
ORDER BY SequenceNum;

-- name: tenant_window
-- As feed_window, for the events of one tenant. The tenant must reach the planner as a constant, so never prepare this.
-- Index: the partition's primary key, in order. Locks: nothing.
SELECT SequenceNum
FROM public.event
WHERE TenantId = %(tenant)s::UUID AND SequenceNum > %(after)s::BIGINT
ORDER BY SequenceNum
LIMIT 1 OFFSET (SELECT %(rows)s::INT);

-- name: be_tenant
-- Makes the session one tenant's, where row-level security is on.
SELECT set_config('eventstore.tenant', %(tenant)s, FALSE);

-- name: horizon
-- How far a reader may read now. Send this before the page, as a statement of its own: only a snapshot taken later
-- shows everything up to the horizon. The last column is another one after a failover, a restore or a restart.
-- Locks: nothing.
SELECT
    Horizon,
    Newest,
    now(),
    pg_is_in_recovery(),
    CONCAT_WS(
        '/',
        EXTRACT(EPOCH FROM pg_postmaster_start_time()),
        (SELECT oid FROM pg_catalog.pg_database WHERE datname = CURRENT_DATABASE())
    )
FROM public.event_horizon();

-- name: holders
-- The sessions whose registration holds the horizon of a settled store where it is: process id, user, application, and the
-- seconds since their transactions began. No process id: a prepared transaction. Locks: nothing.
SELECT held.pid, session.usename, session.application_name, EXTRACT(EPOCH FROM now() - session.xact_start)::INT
FROM public.event_registrations() AS held
LEFT JOIN pg_catalog.pg_stat_activity AS session ON held.pid = session.pid
WHERE held.drawn = (%(horizon)s::BIGINT & 4294967295)
ORDER BY held.pid
LIMIT 3;

-- name: last_row
-- The last event up to a position, as the feed lists it. Index: the feed's primary key. Locks: nothing.
SELECT SequenceNum, TenantId, StreamId, Version
FROM public.event_feed
WHERE SequenceNum <= %(position)s::BIGINT
ORDER BY SequenceNum DESC
LIMIT 1;

-- name: log_date
-- When an event was written; no row where it is gone. The tenant must reach the planner as a constant, so never prepare
-- this. Index: the partition's primary key. Locks: nothing.
SELECT CASE WHEN LogDate BETWEEN '0001-01-02 00:00:00+00' AND '9999-12-30 00:00:00+00' THEN LogDate END
FROM public.event
WHERE TenantId = %(tenant)s::UUID AND SequenceNum = %(position)s::BIGINT;

-- name: same_event
-- Whether the event at a position is the one that was read there. One that is gone counts as the same where its tenant
-- or its stream was deleted, or where it is still in the feed. The tenant must reach the planner as a constant, so never
-- prepare this. Index: the primary keys. Locks: nothing.
SELECT
    CASE
        WHEN listed.SequenceNum IS NOT NULL THEN
            (listed.TenantId, listed.StreamId, listed.Version) = (%(tenant)s::UUID, %(stream)s::UUID, %(version)s::INT)
            AND COALESCE(stored.LogDate = %(log_date)s::TIMESTAMPTZ, TRUE)
        ELSE
            NOT EXISTS (
                SELECT FROM pg_catalog.pg_class AS child
                WHERE
                    child.relname = 'event_' || REPLACE(%(tenant)s::UUID::TEXT, '-', '')
                    AND child.relnamespace
                    = (
                        SELECT parent.relnamespace
                        FROM pg_catalog.pg_class AS parent
                        WHERE parent.oid = 'public.event'::REGCLASS
                    )
            )
            OR EXISTS (
                SELECT FROM public.event_tombstone
                WHERE TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID AND Version >= %(version)s::INT
            )
            OR EXISTS (
                SELECT FROM public.event_dropped_tenant
                WHERE TenantId = %(tenant)s::UUID AND Position >= %(position)s::BIGINT
            )
    END
FROM (SELECT) AS one
LEFT JOIN public.event_feed AS listed ON listed.SequenceNum = %(position)s::BIGINT
LEFT JOIN public.event AS stored
    ON stored.TenantId = %(tenant)s::UUID AND stored.SequenceNum = %(position)s::BIGINT;

-- name: feed_window
-- The position after a number of events, whether a filter passes them or not; no row where there are fewer. A page with a
-- filter reads no further in one statement. Index: the feed's primary key, in order. Locks: nothing.
SELECT SequenceNum
FROM public.event_feed
WHERE SequenceNum > %(after)s::BIGINT
ORDER BY SequenceNum
LIMIT 1 OFFSET (SELECT %(rows)s::INT);

-- name: feed_page
-- Positions and tenants of the next events up to the horizon, of all tenants or many. Horizon and limit are hidden from
-- the planner: before the first ANALYZE it expects a handful of events, fewer than the limit, and would read and sort
-- everything up to the horizon for each page.
-- Index: the feed's primary key, in order; what is filtered out is read, up to the horizon. Locks: nothing.
SELECT SequenceNum, TenantId
FROM (
    SELECT SequenceNum, TenantId
    FROM public.event_feed
    WHERE
        SequenceNum > %(after)s::BIGINT
        AND SequenceNum <= (SELECT %(horizon)s::BIGINT)
        AND (%(types)s::TEXT[] IS NULL OR Type = ANY(%(types)s::TEXT[]))
        AND (%(tenants)s::UUID[] IS NULL OR TenantId = ANY(%(tenants)s::UUID[]))
        -- AND SequenceNum > (%(slots)s::BIGINT[])[(uuid_hash_extended(StreamId, uuid_hash_extended(TenantId, 0)) & 255)::INT + 1] --? part
    ORDER BY SequenceNum
    LIMIT (SELECT %(limit)s::INT)
) AS next_events
ORDER BY SequenceNum;

-- name: own_session
-- Whether the session of the database is the connection's own. A pooler gives a connection a number of its own.
-- Locks: nothing.
SELECT PG_BACKEND_PID() = %(pid)s::INT;

-- name: fetch
-- The events of a page, of a few of its tenants. The page has every wanted event of these tenants up to its last
-- position, so that a range finds them. The tenants must reach the planner as constants: prepare this only with the
-- tenants written into it, because a plan for any tenants is one over all partitions.
-- Index: the partitions' primary keys. Locks: nothing.
SELECT SequenceNum, TenantId, StreamId, Version, Type, Meta, Data, LogDate
FROM public.event
WHERE
    TenantId = ANY(%(tenants)s::UUID[])
    AND SequenceNum > %(after)s::BIGINT AND SequenceNum <= %(last)s::BIGINT
    AND (%(types)s::TEXT[] IS NULL OR Type = ANY(%(types)s::TEXT[]))
    -- AND SequenceNum > (%(slots)s::BIGINT[])[(uuid_hash_extended(StreamId, uuid_hash_extended(TenantId, 0)) & 255)::INT + 1] --? part
;

-- name: fetch_page
-- As fetch, in the order of positions, up to the row with which these tenants' events have too many bytes; the last column counts
-- them. A value that PostgreSQL has compressed is measured as text. There is at least one row, where there is any.
-- Index: the partitions' primary keys. Locks: nothing.
SELECT SequenceNum, TenantId, StreamId, Version, Type, Meta, Data, LogDate, BytesSoFar
FROM (
    SELECT measured.*, SUM(measured.Bytes) OVER (ORDER BY measured.SequenceNum) AS BytesSoFar
    FROM (
        SELECT
            SequenceNum, TenantId, StreamId, Version, Type, Meta, Data, LogDate,
            PG_COLUMN_SIZE(Meta)
            + CASE
                WHEN PG_COLUMN_COMPRESSION(Data) IS NULL THEN COALESCE(PG_COLUMN_SIZE(Data), 0)
                ELSE OCTET_LENGTH(Data::TEXT)
            END AS Bytes
        FROM public.event
        WHERE
            TenantId = ANY(%(tenants)s::UUID[])
            AND SequenceNum > %(after)s::BIGINT AND SequenceNum <= %(last)s::BIGINT
            AND (%(types)s::TEXT[] IS NULL OR Type = ANY(%(types)s::TEXT[]))
            -- AND SequenceNum > (%(slots)s::BIGINT[])[(uuid_hash_extended(StreamId, uuid_hash_extended(TenantId, 0)) & 255)::INT + 1] --? part
    ) AS measured
) AS counted
WHERE BytesSoFar - Bytes < %(most_bytes)s::BIGINT
ORDER BY SequenceNum;

-- name: nth_position
-- The position of the last of the next ``limit`` events up to the horizon, or the horizon where there are fewer.
-- Horizon and limit are applied as in feed_page.
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
) AS next_events;

-- name: describe
-- Whether row-level security hides events from this role: then a reader of all tenants would miss some in silence.
-- Fails where there is no store in the schema. Locks: nothing.
SELECT ROW_SECURITY_ACTIVE('public.event_feed') OR ROW_SECURITY_ACTIVE('public.event');
