-- Searching the outbox page by page, and what the console shows of it at a glance.

-- name: page
-- Up to LIMIT events of one status that pass the filter, newest first by the time at which they came into the status, of
-- the next MOST rows. So a page costs the same at any depth, and a rare type costs further pages instead of a long scan.
-- Tags: one of pending, delivering, delivered, dead. With ascending everything is the other way round. And one of
--     window    rows before BOUND, or with the tag inclusive up to BOUND
--     ties      the rows of exactly BOUND, those below TID; examined says whether MOST were enough for all of them
--     blocks    the same by their location in the table, from EDGE to TID, for a time that very many rows share
--     ids       the events with these ids, at most MOST
-- With the tag bulk events that were changed after UNCHANGED do not pass, with later only those that are due later, with
-- untried only those without a failed attempt.
-- Indexes: idx_openoutbox_metrics_lag, idx_openoutbox_stuck_leases, idx_openoutbox_prune_delivered,
-- idx_openoutbox_prune_dead, after claim:guard in its transaction; with the tag blocks a scan of the range of TIDs, with
-- the tag ids the primary key.
-- Locks: none. Parameters: bound, earliest, until, most, limit, tid, edge, ids, unchanged, and where not NULL: event_type,
-- partition_key, error, error_code (what last_error says before its first colon), header with header_value, and payload, bytes
-- that are part of it: for these two more is read than the index.
-- Result: an event's columns, its TID (NULL when none passes), how many rows were examined, the last one's time.
WITH timed AS (
    SELECT
        ctid AS tid,
        event_id,
        created_at AS since, --? pending
        -- locked_at AS since, --? delivering
        -- delivered_at AS since, --? delivered
        -- updated_at AS since, --? dead
        event_type,
        partition_key,
        last_error,
        attempts,
        available_at,
        updated_at,
        headers,
        payload
    FROM openoutbox_events
    WHERE status = 'PENDING' --? pending
    -- WHERE status = 'DELIVERING' --? delivering
    -- WHERE status = 'DELIVERED' --? delivered
    -- WHERE status = 'DEAD' --? dead
),

examined AS MATERIALIZED (
    SELECT
        tid,
        since,
        (%(event_type)s::text IS NULL OR event_type = %(event_type)s::text)
        AND (%(partition_key)s::text IS NULL OR partition_key = %(partition_key)s::text)
        AND (%(error)s::text IS NULL OR POSITION(LOWER(%(error)s::text) IN LOWER(last_error)) > 0)
        AND (
            %(error_code)s::text IS NULL
            OR LEFT(SPLIT_PART(COALESCE(last_error, ''), ': ', 1), 100) = %(error_code)s::text
        )
        AND (%(header)s::text IS NULL OR headers ->> %(header)s::text = %(header_value)s::text)
        AND (%(payload)s::bytea IS NULL OR POSITION(%(payload)s::bytea IN payload) > 0)
        -- AND updated_at <= %(unchanged)s::timestamptz --? bulk
        -- AND available_at > NOW() --? later
        -- AND attempts = 0 --? untried
            AS matches
    FROM timed
    WHERE
        since >= %(earliest)s::timestamptz
        AND since < %(until)s::timestamptz
        AND since <= %(bound)s::timestamptz --? window inclusive !ascending
        -- AND since < %(bound)s::timestamptz --? window !inclusive !ascending
        -- AND since >= %(bound)s::timestamptz --? window inclusive ascending
        -- AND since > %(bound)s::timestamptz --? window !inclusive ascending
        -- AND since = %(bound)s::timestamptz --? ties|blocks
        -- AND tid < %(tid)s::tid AND tid >= %(edge)s::tid --? blocks !ascending
        -- AND tid > %(tid)s::tid AND tid < %(edge)s::tid --? blocks ascending
        -- AND event_id = ANY(%(ids)s::uuid[]) --? ids
    ORDER BY since DESC --? window !ascending
    -- ORDER BY since ASC --? window ascending
    LIMIT (SELECT %(most)s::bigint)
),

chosen AS (
    SELECT
        tid,
        since
    FROM examined
    WHERE matches
    -- AND tid < %(tid)s::tid --? ties|blocks !ascending
    -- AND tid > %(tid)s::tid --? ties|blocks ascending
    ORDER BY since DESC, tid DESC --? !ascending
    -- ORDER BY since ASC, tid ASC --? ascending
    LIMIT (SELECT %(limit)s::bigint)
),

bounds AS (
    SELECT
        COUNT(*) AS examined,
        MIN(since) AS furthest --? !ascending
        -- MAX(since) AS furthest --? ascending
    FROM examined
)

SELECT
    event.event_id,
    LEFT(event.event_type, 4097),
    LEFT(event.partition_key, 4097),
    event.status,
    event.attempts,
    chosen.since,
    event.created_at,
    event.available_at,
    LEFT(event.locked_by, 1000),
    OCTET_LENGTH(event.payload),
    LEFT(event.last_error, 2000),
    event.ctid::text,
    bounds.examined,
    bounds.furthest
FROM bounds
LEFT JOIN chosen ON TRUE
LEFT JOIN openoutbox_events AS event ON chosen.tid = event.ctid
ORDER BY chosen.since DESC, chosen.tid DESC --? !ascending
-- ORDER BY chosen.since ASC, chosen.tid ASC --? ascending
;

-- name: limit
-- Bounds how long statements run, until the transaction ends. Touches no table. Parameters: timeout (text, milliseconds).
SELECT SET_CONFIG('statement_timeout', %(timeout)s::text, TRUE);

-- name: blocks
-- How many blocks the table has. Catalog only; locks nothing. Parameters: table (quoted). Result: the count.
SELECT PG_RELATION_SIZE(TO_REGCLASS(%(table)s::text)) / CURRENT_SETTING('block_size')::bigint;

-- name: dead_groups
-- The newest MOST dead events grouped by type and error, the largest groups first. The error is what stands before the
-- first colon of last_error, and of that 100 characters.
-- Index: idx_openoutbox_prune_dead, MOST entries at most, after claim:guard in its transaction. Locks: none.
-- Parameters: most, groups. Result: type, error, count, first and last time; rows examined in sum.
WITH newest AS (
    SELECT
        LEFT(event_type, 4097) AS event_type,
        LEFT(SPLIT_PART(COALESCE(last_error, ''), ': ', 1), 100) AS error,
        updated_at
    FROM openoutbox_events
    WHERE status = 'DEAD'
    ORDER BY updated_at DESC
    LIMIT (SELECT %(most)s::bigint)
)

SELECT
    event_type,
    error,
    COUNT(*) AS events,
    MIN(updated_at),
    MAX(updated_at),
    (SUM(COUNT(*)) OVER ())::bigint
FROM newest
GROUP BY event_type, error
ORDER BY events DESC, event_type ASC, error ASC
LIMIT (SELECT %(groups)s::bigint);

-- name: recent_types
-- What was delivered, what died and what failed in the last SECONDS, by type: of the events that were delivered, that died,
-- and that wait for a later time, the newest (of the last, the next) MOST. Failed attempts are those of all these events,
-- whenever they were made; of the waiting ones those count that were changed in this time.
-- Indexes: idx_openoutbox_prune_delivered, idx_openoutbox_prune_dead and idx_openoutbox_processing_queue, after claim:guard
-- in its transaction. Locks: none.
-- Parameters: seconds, most, types. Result: type, delivered, dead, failed attempts, and how many rows were examined in sum.
WITH newest AS (
    (
        SELECT
            event_type,
            attempts,
            status
        FROM openoutbox_events
        WHERE status = 'DELIVERED' AND delivered_at > NOW() - MAKE_INTERVAL(secs => %(seconds)s::float8)
        ORDER BY delivered_at DESC
        LIMIT (SELECT %(most)s::bigint)
    )
    UNION ALL
    (
        SELECT
            event_type,
            attempts,
            status
        FROM openoutbox_events
        WHERE status = 'DEAD' AND updated_at > NOW() - MAKE_INTERVAL(secs => %(seconds)s::float8)
        ORDER BY updated_at DESC
        LIMIT (SELECT %(most)s::bigint)
    )
    UNION ALL
    (
        SELECT
            event_type,
            attempts,
            status
        FROM (
            SELECT
                event_type,
                attempts,
                status,
                updated_at
            FROM openoutbox_events
            WHERE status = 'PENDING' AND available_at > NOW()
            ORDER BY available_at ASC
            LIMIT (SELECT %(most)s::bigint)
        ) AS later
        WHERE attempts > 0 AND updated_at > NOW() - MAKE_INTERVAL(secs => %(seconds)s::float8)
    )
)

SELECT
    event_type,
    COUNT(*) FILTER (WHERE status = 'DELIVERED'),
    COUNT(*) FILTER (WHERE status = 'DEAD'),
    SUM(attempts)::bigint,
    (SUM(COUNT(*)) OVER ())::bigint
FROM newest
GROUP BY event_type
ORDER BY COUNT(*) DESC, event_type ASC
LIMIT (SELECT %(types)s::bigint);

-- name: delivered_by_minute
-- How many events were delivered in each of the last MINUTES and in the current one: of each minute the first MOST are
-- counted. A minute that has more is estimated from the time that these took, so that the cost is the same at any pace.
-- Index: idx_openoutbox_prune_delivered, MINUTES times MOST entries at most, index-only where the table has been vacuumed,
-- after claim:guard in its transaction. Locks: none. Parameters: minutes, most.
-- Result: the minute's start, the count, whether it is exact; every minute has its row, the current one the last.
SELECT
    minute.start,
    CASE
        WHEN counted.events < %(most)s::bigint THEN counted.events
        ELSE ROUND(
            counted.events
            * EXTRACT(EPOCH FROM LEAST(minute.start + INTERVAL '1 minute', NOW()) - minute.start)
            / GREATEST(EXTRACT(EPOCH FROM counted.last - minute.start), 0.001)
        )::bigint
    END,
    counted.events < %(most)s::bigint
FROM (
    SELECT DATE_TRUNC('minute', NOW()) - MAKE_INTERVAL(mins => ago) AS start
    FROM GENERATE_SERIES(0, %(minutes)s::int) AS ago
) AS minute
CROSS JOIN LATERAL (
    SELECT
        COUNT(*) AS events,
        MAX(delivered_at) AS last
    FROM (
        SELECT delivered_at
        FROM openoutbox_events
        WHERE
            status = 'DELIVERED'
            AND delivered_at >= minute.start
            AND delivered_at < minute.start + INTERVAL '1 minute'
            AND delivered_at <= NOW()
        ORDER BY delivered_at ASC
        LIMIT (SELECT %(most)s::bigint)
    ) AS first
) AS counted
ORDER BY minute.start;

-- name: index_scans
-- For counts that end at a bound: never read the whole table, nor a whole index before the first row is counted. Local to
-- the transaction; touches no table. Parameters: none.
SELECT
    SET_CONFIG('enable_seqscan', 'off', TRUE),
    SET_CONFIG('enable_bitmapscan', 'off', TRUE);

-- name: figures
-- The backlog, as backlog:backlog, with counts that end at MOST.
-- Indexes: idx_openoutbox_metrics_count and idx_openoutbox_prune_dead, index-only where the table has been vacuumed, and
-- idx_openoutbox_stuck_leases: MOST entries of each at most, after index_scans in its transaction; one row of
-- idx_openoutbox_metrics_lag and of idx_openoutbox_processing_queue. Locks: none. Parameters: most.
-- Result: PENDING without and with a failed attempt, the age of the oldest and of the oldest due one in seconds, DEAD; and
-- how many are leased.
SELECT
    pending.fresh,
    pending.retrying,
    CASE WHEN ISFINITE(oldest.created) THEN GREATEST(DATE_PART('epoch', NOW() - oldest.created), 0) ELSE 0 END,
    CASE WHEN ISFINITE(due.since) THEN GREATEST(DATE_PART('epoch', NOW() - due.since), 0) ELSE 0 END,
    dead.rows,
    leased.rows
FROM
    (
        SELECT
            COUNT(*) FILTER (WHERE attempts = 0) AS fresh,
            COUNT(*) FILTER (WHERE attempts <> 0) AS retrying
        FROM (
            SELECT attempts FROM openoutbox_events
            WHERE status = 'PENDING'
            LIMIT %(most)s::bigint
        ) AS counted_pending
    ) AS pending,
    (SELECT MIN(created_at) AS created FROM openoutbox_events WHERE status = 'PENDING') AS oldest,
    (
        SELECT MIN(available_at) AS since FROM openoutbox_events
        WHERE status = 'PENDING' AND available_at <= NOW()
    ) AS due,
    (
        SELECT COUNT(*) AS rows FROM (
            SELECT 1 FROM openoutbox_events
            WHERE status = 'DEAD'
            LIMIT %(most)s::bigint
        ) AS counted_dead
    ) AS dead,
    (
        SELECT COUNT(*) AS rows FROM (
            SELECT 1 FROM openoutbox_events
            WHERE status = 'DELIVERING'
            LIMIT %(most)s::bigint
        ) AS counted_leased
    ) AS leased;

-- name: relays
-- The relays that are connected to this database, by the names of their connections. Locks: none.
-- Parameters: prefix. Result: the relay, the number of its connections. Names are all that every role may see.
SELECT
    SUBSTR(application_name, LENGTH(%(prefix)s::text) + 1),
    COUNT(*)
FROM pg_catalog.pg_stat_activity
WHERE datname = CURRENT_DATABASE() AND STARTS_WITH(application_name, %(prefix)s::text)
GROUP BY application_name
ORDER BY application_name;
