-- What waits: counts, ages and event types.

-- name: backlog
-- GetStats: what waits, how old it is, and how many are dead.
-- Indexes: idx_openoutbox_metrics_count (index-only) counts, idx_openoutbox_metrics_lag and
-- idx_openoutbox_processing_queue answer their MIN with one row, idx_openoutbox_prune_dead (index-only) counts DEAD.
-- Tag paused: paused rows count, and are not late. Parameters: due_from, created_from, and with that tag paused (as in claim).
-- Locks: none. Ages are seconds, 0 when there is none; an infinite time has no age.
SELECT
    pending.fresh,
    pending.retrying,
    CASE WHEN ISFINITE(oldest.created) THEN GREATEST(DATE_PART('epoch', NOW() - oldest.created), 0) ELSE 0 END,
    CASE WHEN ISFINITE(due.since) THEN GREATEST(DATE_PART('epoch', NOW() - due.since), 0) ELSE 0 END,
    dead.rows
FROM
    (
        SELECT
            COUNT(*) FILTER (WHERE attempts = 0) AS fresh,
            COUNT(*) FILTER (WHERE attempts <> 0) AS retrying
        FROM openoutbox_events
        WHERE status = 'PENDING'
    ) AS pending,
    (SELECT MIN(created_at) AS created FROM openoutbox_events WHERE status = 'PENDING') AS oldest,
    (
        SELECT MIN(available_at) AS since FROM openoutbox_events
        WHERE
            status = 'PENDING' AND available_at <= NOW()
            AND (available_at, created_at)
            >= (TO_TIMESTAMP(%(due_from)s::float8), TO_TIMESTAMP(%(created_from)s::float8))
            AND event_type NOT LIKE ALL(%(paused)s::text[]) --? paused
    ) AS due,
    (SELECT COUNT(*) AS rows FROM openoutbox_events WHERE status = 'DEAD') AS dead;

-- name: leases
-- The newest leases, up to SAMPLE, and which relay has each: for the check of ON_DELIVERED=keep.
-- Index: idx_openoutbox_stuck_leases, backwards. Locks: none. Parameters: sample. Result: event id and relay.
SELECT
    event_id::text,
    locked_by
FROM openoutbox_events
WHERE status = 'DELIVERING'
ORDER BY locked_at DESC
LIMIT (SELECT %(sample)s::bigint);

-- name: statuses
-- The status of each event, and which relay has its lease; NULL for one without a row.
-- Index: the primary key; the inner LIMIT keeps the planner from reading the whole table for a hash join.
-- Locks: none. Parameters: ids.
SELECT
    chosen.event_id::text,
    event.status,
    event.locked_by
FROM UNNEST(%(ids)s::uuid[]) AS chosen (event_id)
LEFT JOIN LATERAL (
    SELECT
        status,
        locked_by
    FROM openoutbox_events
    WHERE openoutbox_events.event_id = chosen.event_id
    LIMIT 1
) AS event ON TRUE;

-- name: delivered_recently
-- Whether a row became DELIVERED in the last seconds, for the check of ON_DELIVERED=delete.
-- Index: idx_openoutbox_prune_delivered, one probe. Locks: none. Parameters: seconds. Result: one boolean.
SELECT COALESCE(MAX(delivered_at) > NOW() - MAKE_INTERVAL(secs => %(seconds)s::float8), FALSE)
FROM openoutbox_events
WHERE status = 'DELIVERED';

-- name: oldest_due_age
-- The lag: the age in seconds of the oldest row that is due, 0 when none is.
-- Index: one probe of idx_openoutbox_processing_queue, however many rows are scheduled or backed off; with
-- claim:guard in its transaction also where the planner believes that nothing waits, and would read all that does.
-- Tag paused: paused rows are not late. Parameters: due_from, created_from, and with that tag paused (as in claim).
-- Locks: none.
SELECT CASE WHEN ISFINITE(due.since) THEN GREATEST(DATE_PART('epoch', NOW() - due.since), 0) ELSE 0 END
FROM (
    SELECT (
        SELECT available_at
        FROM openoutbox_events
        WHERE
            status = 'PENDING' AND available_at <= NOW()
            AND (available_at, created_at)
            >= (TO_TIMESTAMP(%(due_from)s::float8), TO_TIMESTAMP(%(created_from)s::float8))
            AND event_type NOT LIKE ALL(%(paused)s::text[]) --? paused
        ORDER BY available_at
        LIMIT (SELECT 1)
    ) AS since
) AS due;

-- name: oldest_delivered_age
-- The age in seconds of the oldest DELIVERED row, 0 when there is none: how far prune is behind.
-- Index: one probe of idx_openoutbox_prune_delivered, after claim:guard in its transaction, without which the planner
-- may read all DELIVERED rows where it believes that there are none. Locks: none.
SELECT CASE WHEN ISFINITE(oldest.since) THEN GREATEST(DATE_PART('epoch', NOW() - oldest.since), 0) ELSE 0 END
FROM (
    SELECT (
        SELECT delivered_at
        FROM openoutbox_events
        WHERE status = 'DELIVERED' AND delivered_at IS NOT NULL
        ORDER BY delivered_at
        LIMIT (SELECT 1)
    ) AS since
) AS oldest;

-- name: delivering_count
-- How many events are leased just now, by all relays. Index: idx_openoutbox_stuck_leases, index-only. Locks: none.
SELECT COUNT(*) FROM openoutbox_events
WHERE status = 'DELIVERING';

-- name: pending_types
-- The event types among the first SAMPLE events that wait, oldest first, for the check whether each has a destination.
-- Index: idx_openoutbox_metrics_lag, SAMPLE entries at most. Locks: none. Parameters: sample.
SELECT DISTINCT event_type
FROM (
    SELECT LEFT(event_type, 4097) AS event_type
    FROM openoutbox_events
    WHERE status = 'PENDING'
    ORDER BY created_at
    LIMIT %(sample)s::bigint
) AS waiting
ORDER BY event_type;

-- name: broken_rows
-- How many rows break the contract's invariants 1 and 2, or have attempts below zero, in a way that no relay writes them: of
-- MOST rows of each status, those that are due first, and else those with the latest times and with none.
-- Indexes: idx_openoutbox_processing_queue, idx_openoutbox_stuck_leases, idx_openoutbox_prune_delivered,
-- idx_openoutbox_prune_dead. Locks: none. Parameters: most.
-- Result: counts of rows whose status does not go with their lease, or with delivered_at, and of attempts below zero.
SELECT
    COUNT(*) FILTER (WHERE (status = 'DELIVERING') <> (locked_at IS NOT NULL AND locked_by IS NOT NULL)
    OR (status <> 'DELIVERING' AND (locked_at IS NOT NULL OR locked_by IS NOT NULL))),
    COUNT(*) FILTER (WHERE (status = 'DELIVERED') <> (delivered_at IS NOT NULL)),
    COUNT(*) FILTER (WHERE attempts < 0)
FROM (
    (
        SELECT status, locked_at, locked_by, delivered_at, attempts
        FROM openoutbox_events
        WHERE status = 'PENDING'
        ORDER BY available_at, created_at
        LIMIT (SELECT %(most)s::bigint)
    )
    UNION ALL
    (
        SELECT status, locked_at, locked_by, delivered_at, attempts
        FROM openoutbox_events
        WHERE status = 'DELIVERING'
        ORDER BY locked_at DESC
        LIMIT (SELECT %(most)s::bigint)
    )
    UNION ALL
    (
        SELECT status, locked_at, locked_by, delivered_at, attempts
        FROM openoutbox_events
        WHERE status = 'DELIVERED'
        ORDER BY delivered_at DESC
        LIMIT (SELECT %(most)s::bigint)
    )
    UNION ALL
    (
        SELECT status, locked_at, locked_by, delivered_at, attempts
        FROM openoutbox_events
        WHERE status = 'DEAD'
        ORDER BY updated_at DESC
        LIMIT (SELECT %(most)s::bigint)
    )
) AS looked_at;

-- name: order_sequence
-- With the extension key-order: the last number that was drawn, and the highest one of the events that wait, SAMPLE of the
-- oldest and of the newest. Index: idx_openoutbox_metrics_lag, from both ends. Locks: none. Parameters: table (quoted), sample.
-- Result: the last number, 0 before the first, NULL without a right on the sequence; the highest one.
SELECT
    CASE
        WHEN HAS_SEQUENCE_PRIVILEGE(sequence.name, 'USAGE, SELECT')
            THEN COALESCE(PG_SEQUENCE_LAST_VALUE(sequence.name::regclass), 0)
    END,
    GREATEST(oldest.place, newest.place)
FROM
    (SELECT PG_GET_SERIAL_SEQUENCE(%(table)s::text, 'insertion_order') AS name) AS sequence,
    (
        SELECT MAX(insertion_order) AS place
        FROM (
            SELECT insertion_order
            FROM openoutbox_events
            WHERE status = 'PENDING'
            ORDER BY created_at
            LIMIT (SELECT %(sample)s::bigint)
        ) AS waiting
    ) AS oldest,
    (
        SELECT MAX(insertion_order) AS place
        FROM (
            SELECT insertion_order
            FROM openoutbox_events
            WHERE status = 'PENDING'
            ORDER BY created_at DESC
            LIMIT (SELECT %(sample)s::bigint)
        ) AS waiting
    ) AS newest;

-- name: set_order_sequence
-- The sequence of the extension key-order goes on behind the highest number. Run by the owner, on check's advice.
-- Reads the whole table. Locks: none. Parameters: none.
SELECT SETVAL(PG_GET_SERIAL_SEQUENCE(MIN(tableoid::regclass::text), 'insertion_order'), MAX(insertion_order))
FROM openoutbox_events;

-- name: times_ahead
-- What has a time more than a minute ahead of the database's clock that is never ahead of it: leases, and the insertion of
-- what waits. Counted up to MOST each. Indexes: idx_openoutbox_stuck_leases, idx_openoutbox_metrics_lag. Locks: none.
-- Parameters: most. Result: column, count, and the seconds by which the last one is ahead, at most a year of them.
SELECT
    'locked_at',
    COUNT(*),
    DATE_PART('epoch', LEAST(MAX(locked_at), NOW() + INTERVAL '1 year') - NOW())
FROM (
    SELECT locked_at
    FROM openoutbox_events
    WHERE status = 'DELIVERING' AND locked_at > NOW() + INTERVAL '1 minute'
    ORDER BY locked_at DESC
    LIMIT %(most)s::bigint
) AS leases
HAVING COUNT(*) > 0
UNION ALL
SELECT
    'created_at',
    COUNT(*),
    DATE_PART('epoch', LEAST(MAX(created_at), NOW() + INTERVAL '1 year') - NOW())
FROM (
    SELECT created_at
    FROM openoutbox_events
    WHERE status = 'PENDING' AND created_at > NOW() + INTERVAL '1 minute'
    ORDER BY created_at DESC
    LIMIT %(most)s::bigint
) AS waiting
HAVING COUNT(*) > 0;

-- name: recent_reclaims
-- Leases that were reclaimed in the last seconds: of the events that wait, a reclaimed one is among those due last; of
-- those DELIVERED since, the newest. For the check whether a relay with a shorter LEASE_TIMEOUT works on the table.
-- Indexes: idx_openoutbox_processing_queue and idx_openoutbox_prune_delivered, backwards, SAMPLE entries of each at most.
-- Locks: none. Parameters: sample, seconds.
-- Result: the reaper's message, which ends with the time of the claim or renewal, and a time not before the reclaim.
SELECT
    last_error,
    updated_at
FROM (
    (
        SELECT
            last_error,
            updated_at
        FROM openoutbox_events
        WHERE status = 'PENDING'
        ORDER BY available_at DESC
        LIMIT (SELECT %(sample)s::bigint)
    )
    UNION ALL
    (
        SELECT
            last_error,
            updated_at
        FROM openoutbox_events
        WHERE status = 'DELIVERED' AND delivered_at > NOW() - MAKE_INTERVAL(secs => %(seconds)s::float8)
        ORDER BY delivered_at DESC
        LIMIT (SELECT %(sample)s::bigint)
    )
) AS latest
WHERE
    STARTS_WITH(last_error, 'LEASE_EXPIRED: ')
    AND LENGTH(last_error) <= 2000 -- a longer one is no relay's
    AND updated_at > NOW() - MAKE_INTERVAL(secs => %(seconds)s::float8);

-- name: held_beyond
-- Relays that hold events for longer than SECONDS after the claim or renewal, and whether they are connected under their
-- name: for the check whether a relay with a longer LEASE_TIMEOUT works on the table, or one that is gone holds events.
-- pg_stat_activity shows names to every role.
-- Index: idx_openoutbox_stuck_leases, SAMPLE entries at most. Locks: none. Parameters: seconds, sample, prefix (of the
-- names of relays' connections), longest (characters of such a name).
-- Result: the relay, how many events, the longest time in seconds, and whether it is connected.
SELECT
    held.locked_by,
    COUNT(*),
    EXTRACT(EPOCH FROM NOW() - MIN(held.locked_at))::float8,
    EXISTS (
        SELECT 1
        FROM pg_stat_activity AS session
        WHERE
            session.datname = CURRENT_DATABASE()
            AND session.application_name = LEFT(%(prefix)s::text || held.locked_by, %(longest)s::int)
    )
FROM (
    SELECT
        LEFT(locked_by, 1000) AS locked_by,
        locked_at
    FROM openoutbox_events
    WHERE
        status = 'DELIVERING'
        AND locked_at < NOW() - MAKE_INTERVAL(secs => %(seconds)s::float8)
        AND ISFINITE(locked_at)
    ORDER BY locked_at
    LIMIT (SELECT %(sample)s::bigint)
) AS held
GROUP BY held.locked_by
ORDER BY held.locked_by;
