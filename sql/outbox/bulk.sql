-- What an operator does to many events: how many they are, and changing a batch of them. sql/outbox/search.sql:page, with
-- the tag bulk, reads their locations (ctid). What is found by its location says its status by what it is not: the planner
-- would take an index of that status for it where statistics say that it has little, and read all its dead entries.

-- name: count
-- How many events a change would take now, counted up to MOST; and the latest time among those counted.
-- Tags: dead, delivered or pending; and as page's: later, untried. With errors by the begin of last_error, of LONGEST
-- characters, so many ERRORS at most: one row for each, with its text behind the time.
-- Index: idx_openoutbox_prune_dead, idx_openoutbox_prune_delivered or idx_openoutbox_metrics_lag, or the primary key
-- with IDS. Locks: none.
-- Parameters: earliest, until, unchanged, most, and where not NULL: event_type, partition_key, error, error_code, ids; with
-- errors: longest, errors. Result: count, time or NULL.
SELECT
    COUNT(*),
    MAX(since)
    -- , failure --? errors
FROM (
    SELECT
        -- LEFT(COALESCE(last_error, ''), %(longest)s::int) COLLATE "C" AS failure, --? errors
        updated_at AS since --? dead
        -- delivered_at AS since --? delivered
        -- created_at AS since --? pending
    FROM openoutbox_events
    WHERE
        status = 'DEAD' --? dead
        -- status = 'DELIVERED' --? delivered
        -- status = 'PENDING' --? pending
        AND updated_at >= %(earliest)s::timestamptz AND updated_at < %(until)s::timestamptz --? dead
        -- AND delivered_at >= %(earliest)s::timestamptz AND delivered_at < %(until)s::timestamptz --? delivered
        -- AND created_at >= %(earliest)s::timestamptz AND created_at < %(until)s::timestamptz --? pending
        AND (%(event_type)s::text IS NULL OR event_type = %(event_type)s::text)
        AND (%(partition_key)s::text IS NULL OR partition_key = %(partition_key)s::text)
        AND (%(error)s::text IS NULL OR POSITION(LOWER(%(error)s::text) IN LOWER(last_error)) > 0)
        AND (
            %(error_code)s::text IS NULL
            OR LEFT(SPLIT_PART(COALESCE(last_error, ''), ': ', 1), 100) = %(error_code)s::text
        )
        AND (%(ids)s::uuid[] IS NULL OR event_id = ANY(%(ids)s::uuid[]))
        AND updated_at <= %(unchanged)s::timestamptz
        -- AND available_at > NOW() --? later
        -- AND attempts = 0 --? untried
    LIMIT %(most)s::bigint
) AS counted
-- GROUP BY failure LIMIT %(errors)s::bigint --? errors
;

-- name: replay
-- DEAD or DELIVERED -> PENDING, by the operator (invariant 6), as if never tried.
-- Tags: dead or delivered.
-- Index: none, a scan of the TIDS. Locks: the rows it writes, skipping those that another session holds.
-- A location may hold another row by now, or its event may have moved: so the id is compared too, and UNCHANGED, which is
-- at most the time at which the replay began. So an event that is dead or delivered again meanwhile is not replayed twice.
-- Parameters: tids and ids, of one length; unchanged. Result: of each event that was chosen its id and whether it was
-- written (a trigger that returns OLD leaves it as it was, and PostgreSQL counts it), then what it was before, for the record.
WITH chosen AS (
    SELECT
        ctid AS tid,
        event_id,
        status,
        attempts,
        last_error,
        updated_at AS since --? dead
        -- delivered_at AS since --? delivered
    FROM openoutbox_events
    WHERE
        ctid = ANY(%(tids)s::tid[])
        AND event_id = ANY(%(ids)s::uuid[])
        AND status NOT IN ('PENDING', 'DELIVERING', 'DELIVERED') --? dead
        -- AND status NOT IN ('PENDING', 'DELIVERING', 'DEAD') --? delivered
        AND updated_at <= %(unchanged)s::timestamptz
    FOR UPDATE SKIP LOCKED
),

replayed AS (
    UPDATE openoutbox_events SET
        status = 'PENDING',
        attempts = 0,
        last_error = NULL,
        delivered_at = NULL,
        available_at = NOW(),
        updated_at = NOW()
    WHERE ctid = ANY(ARRAY(SELECT tid FROM chosen)) AND status NOT IN ('PENDING', 'DELIVERING', 'DELIVERED') --? dead
    -- WHERE ctid = ANY(ARRAY(SELECT tid FROM chosen)) AND status NOT IN ('PENDING', 'DELIVERING', 'DEAD') --? delivered
    RETURNING event_id, status = 'PENDING' AS written
)

SELECT
    chosen.event_id,
    COALESCE(replayed.written, FALSE),
    chosen.status,
    chosen.attempts,
    chosen.last_error,
    chosen.since
FROM chosen
LEFT JOIN replayed ON chosen.event_id = replayed.event_id
ORDER BY chosen.since;

-- name: change
-- PENDING stays PENDING and is due now (tag retry), or becomes DEAD until it is replayed (tag bury).
-- Tags: retry or bury; and as page's: later, untried.
-- Index: none, a scan of the TIDS. Locks: the rows it writes, skipping those that another session holds: a relay that
-- claims them at this moment keeps them. The id and UNCHANGED are compared as replay does.
-- Parameters: tids and ids, of one length; unchanged; with bury error. Result: of each event that was chosen its id and
-- whether it was written.
WITH chosen AS (
    SELECT
        ctid AS tid,
        event_id
    FROM openoutbox_events
    WHERE
        ctid = ANY(%(tids)s::tid[])
        AND event_id = ANY(%(ids)s::uuid[])
        AND status NOT IN ('DELIVERING', 'DELIVERED', 'DEAD')
        AND updated_at <= %(unchanged)s::timestamptz
        -- AND available_at > NOW() --? later
        -- AND attempts = 0 --? untried
    FOR UPDATE SKIP LOCKED
),

changed AS (
    UPDATE openoutbox_events SET
        available_at = NOW(), --? retry
        -- status = 'DEAD', --? bury
        -- last_error = %(error)s::text, --? bury
        updated_at = NOW()
    WHERE ctid = ANY(ARRAY(SELECT tid FROM chosen)) AND status NOT IN ('DELIVERING', 'DELIVERED', 'DEAD')
    RETURNING
        event_id,
        available_at = NOW() AS written --? retry
        -- status = 'DEAD' AS written --? bury
)

SELECT
    chosen.event_id,
    COALESCE(changed.written, FALSE)
FROM chosen
LEFT JOIN changed ON chosen.event_id = changed.event_id;
