-- Leases: renew them, read a lost renewal back, reap the expired ones.

-- name: renew
-- DELIVERING -> DELIVERING: a full lease from now. The new fence is later than the old one even if the database's
-- clock was set back.
-- Index: idx_openoutbox_stuck_leases by the exact locked_at (or the primary key), then a TID scan; the fence is
-- status, locked_by and locked_at, so that what comes after the lease was reaped changes nothing.
-- Locks: the rows it writes, skipping those that another session has locked: no lease waits for them.
-- Tag prepared: as in settle.sql.
-- Parameters: ids, relay_id, fence. Result: the ids renewed, and the new fence.
UPDATE openoutbox_events SET
    locked_at = GREATEST(NOW(), locked_at + INTERVAL '1 microsecond'),
    updated_at = NOW()
WHERE ctid = ANY(ARRAY(
    SELECT ctid
    FROM openoutbox_events
    WHERE
        event_id = ANY(%(ids)s::uuid[]) --? !prepared
        -- (event_id IN (SELECT UNNEST(%(ids)s::uuid[]))) IS TRUE --? prepared
        AND status = 'DELIVERING'
        AND (SELECT SET_CONFIG('plan_cache_mode', NULL, TRUE) || SET_CONFIG('enable_seqscan', NULL, TRUE)) <> '' --? prepared
        AND locked_by = %(relay_id)s::text
        AND locked_at = %(fence)s::timestamptz
    FOR NO KEY UPDATE SKIP LOCKED
))
RETURNING event_id::text, locked_at;

-- name: held
-- The rows still held under a fence, of those that a settle or a renewal did not write: another session has locked
-- them. The others are no longer this relay's.
-- Index: idx_openoutbox_stuck_leases by the exact locked_at, or the primary key. Locks: none.
-- Parameters: ids, relay_id, fence. Result: ids.
SELECT event_id::text
FROM openoutbox_events
WHERE
    event_id = ANY(%(ids)s::uuid[])
    AND status = 'DELIVERING'
    AND locked_by = %(relay_id)s::text
    AND locked_at = %(fence)s::timestamptz;

-- name: unlocked
-- The same rows, without those that another session has locked: what was not written although it could be.
-- Index: as held. Locks: these rows, for the length of this statement, as the statement that did not write them does: tag
-- delete, for one that deletes. SET_CONFIG: a commit that changes nothing waits for neither disk nor standby, while one that
-- settles may. Parameters: as held. Result: ids.
SELECT event_id::text
FROM openoutbox_events
WHERE
    event_id = ANY(%(ids)s::uuid[])
    AND status = 'DELIVERING'
    AND locked_by = %(relay_id)s::text
    AND locked_at = %(fence)s::timestamptz
    AND (SELECT SET_CONFIG('synchronous_commit', 'off', TRUE)) = 'off'
FOR NO KEY UPDATE SKIP LOCKED; --? !delete
-- FOR UPDATE SKIP LOCKED; --? delete

-- name: renew_guard
-- Bounds the time for which a renewal's transaction may sit between its UPDATE and its COMMIT, so that a relay that
-- vanishes there does not hold its rows locked. Local to the transaction; touches no table.
-- Parameters: timeout (text, milliseconds).
SELECT SET_CONFIG('idle_in_transaction_session_timeout', %(timeout)s::text, TRUE);

-- name: read_back
-- After a renewal's COMMIT whose answer was lost: the fence of each row that can be locked. While that COMMIT is under
-- way it holds every row of the renewal; so as soon as one row can be locked, the renewal has ended, one way or the other.
-- Index: the primary key, or idx_openoutbox_stuck_leases by locked_at.
-- Locks: the rows, skipping those that another session has locked, for the length of this statement. SET_CONFIG: as in
-- unlocked.
-- Parameters: ids, relay_id, fence (the old one), renewed (the new one). Result: the fences of the rows locked.
SELECT locked_at
FROM openoutbox_events
WHERE
    event_id = ANY(%(ids)s::uuid[])
    AND status = 'DELIVERING'
    AND locked_by = %(relay_id)s::text
    AND locked_at IN (%(fence)s::timestamptz, %(renewed)s::timestamptz)
    AND (SELECT SET_CONFIG('synchronous_commit', 'off', TRUE)) = 'off'
FOR NO KEY UPDATE SKIP LOCKED;

-- name: reap
-- DELIVERING -> PENDING or DEAD: reclaim expired leases, a bounded number, each as a failed attempt.
-- Index: idx_openoutbox_stuck_leases, then a TID scan.
-- Locks: the rows it writes, skipping those that another session has locked, for example to settle them.
-- The delay is relay.core.backoff's formula (a test holds the two equal); attempts before this one are the number of
-- doublings, bounded as there. RANDOM() is drawn for each row.
-- The LIMIT is a subquery so that the planner does not know it and always walks the index in order: with the number,
-- and statistics that underrate the backlog, it reads all that is due and sorts it.
-- Tag excluding: leaves rows out, by their ids. Tag ahead: of leases whose time is ahead of the clock, instead, those that the
-- relay's own clock says have expired (relay/outbox/times_ahead.py); ahead has their times, in seconds since 1970. Tag timeless:
-- leases without a time instead, which no relay has claimed. Tag chosen: of some rows alone, found by their ids, as in claim.
-- Tag asked, beside it: under these very fences, which had expired when they were read. Tag fan_out, beside that, with the column
-- of extensions/fan_out.sql: adds the destinations that a proof has spoken for. Tag former, likewise: they have not expired, and
-- are of a relay that was started again.
-- Parameters: limit, lease, base_delay, max_delay (seconds), jitter, max_attempts; locked_from (seconds since 1970: where it
-- begins, relay/outbox/reaping.py); excluded; ahead; chosen; asked, holders, fences; acknowledged (a JSON object from event ids
-- to names with commas between them). Result: counts by what became of them, the time in seconds since 1970, and
-- how many were chosen and not written.
WITH expired AS (
    SELECT ctid AS tid
    FROM openoutbox_events
    WHERE
        status = 'DELIVERING' --? !chosen
        -- status NOT IN ('PENDING', 'DELIVERED', 'DEAD') --? chosen
        AND locked_at < NOW() - MAKE_INTERVAL(secs => %(lease)s::float8) --? !ahead !timeless !asked
        AND locked_at >= TO_TIMESTAMP(%(locked_from)s::float8) --? !ahead !timeless !chosen
        -- AND locked_at > NOW() + INTERVAL '1 minute' --? ahead
        -- AND DATE_PART('epoch', locked_at) = ANY(%(ahead)s::float8[]) --? ahead
        -- AND locked_at IS NULL --? timeless
        AND event_id <> ALL(%(excluded)s::uuid[]) --? excluding
        -- AND event_id = ANY(%(chosen)s::uuid[]) --? chosen
        -- AND (event_id, COALESCE(locked_by, ''), locked_at) IN ( --? asked
        --     SELECT * FROM UNNEST(%(asked)s::uuid[], %(holders)s::text[], %(fences)s::timestamptz[]) --? asked
        -- ) --? asked
    ORDER BY locked_at --? !chosen
    LIMIT (SELECT %(limit)s::bigint)
    FOR UPDATE SKIP LOCKED
),

reaped AS (
    UPDATE openoutbox_events SET
        status = CASE WHEN attempts + 1::bigint >= %(max_attempts)s::bigint THEN 'DEAD' ELSE 'PENDING' END,
        attempts = LEAST(GREATEST(attempts, 0), 2147483646) + 1,
        last_error
        = 'LEASE_EXPIRED: lease of ' || COALESCE(LEFT(locked_by, 1000), 'an unknown relay')
        || ' expired; claimed or renewed at ' --? !former
        -- || ' ended when that relay started again; it was of ' --? former
        -- an infinite time, set by hand, has no such text
        || COALESCE(
            TO_CHAR(locked_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), locked_at::text, 'an unknown time'
        ),
        available_at = CASE
            WHEN attempts + 1::bigint >= %(max_attempts)s::bigint THEN available_at
            ELSE NOW() + MAKE_INTERVAL(secs => LEAST(
                LEAST(
                    %(base_delay)s::float8 * POWER(2::float8, LEAST(GREATEST(attempts, 0), 62)),
                    %(max_delay)s::float8
                ) * (1 + %(jitter)s::float8 * RANDOM()),
                3155760000
            ))
        END,
        locked_by = NULL,
        locked_at = NULL,
        -- acknowledged_by --? fan_out
        -- = acknowledged_by || STRING_TO_ARRAY(%(acknowledged)s::jsonb ->> event_id::text, ','), --? fan_out
        updated_at = NOW()
    WHERE ctid = ANY(ARRAY(SELECT tid FROM expired))
    RETURNING status
)

SELECT
    COUNT(*) FILTER (WHERE status = 'PENDING') AS retried,
    COUNT(*) FILTER (WHERE status = 'DEAD') AS buried,
    DATE_PART('epoch', NOW()) AS reaped_at,
    (SELECT COUNT(*) FROM expired) - COUNT(*) FILTER (WHERE status <> 'DELIVERING') AS kept
FROM reaped;

-- name: first_expired
-- The row that a reap with a limit of 1 would reclaim.
-- Index: idx_openoutbox_stuck_leases. Locks: that row, skipping those that another session has locked, for the length of
-- this statement. SET_CONFIG: as in unlocked. Tag ahead: as in reap. Parameters: lease (seconds), locked_from, excluded, ahead. Result: its id, or no row.
SELECT event_id::text
FROM openoutbox_events
WHERE
    status = 'DELIVERING'
    AND locked_at < NOW() - MAKE_INTERVAL(secs => %(lease)s::float8) --? !ahead !timeless
    AND locked_at >= TO_TIMESTAMP(%(locked_from)s::float8) --? !ahead !timeless
    -- AND locked_at > NOW() + INTERVAL '1 minute' --? ahead
    -- AND DATE_PART('epoch', locked_at) = ANY(%(ahead)s::float8[]) --? ahead
    -- AND locked_at IS NULL --? timeless
    AND event_id <> ALL(%(excluded)s::uuid[])
    AND (SELECT SET_CONFIG('synchronous_commit', 'off', TRUE)) = 'off'
ORDER BY locked_at
LIMIT 1
FOR UPDATE SKIP LOCKED;

-- name: expired_page
-- The expired leases behind one of them, in the order of their times and of their places in the table.
-- Index: idx_openoutbox_stuck_leases. Locks: none. Parameters: lease (seconds), locked_from (seconds since 1970) and tid_from
-- (of the last one before the page), excluded, page. Result: id, time (seconds since 1970), place in the table. Tag asked:
-- before these the holder and the fence. Tag ahead: as in reap.
SELECT
    -- COALESCE(locked_by, '') AS holder, --? asked
    -- locked_at AS fence, --? asked
    event_id::text,
    DATE_PART('epoch', locked_at),
    ctid::text AS place -- not named ctid: ORDER BY would sort it as text
FROM openoutbox_events
WHERE
    status = 'DELIVERING'
    AND locked_at < NOW() - MAKE_INTERVAL(secs => %(lease)s::float8) --? !ahead
    AND locked_at >= TO_TIMESTAMP(%(locked_from)s::float8) --? !ahead
    AND (locked_at, ctid) > (TO_TIMESTAMP(%(locked_from)s::float8), %(tid_from)s::tid) --? !ahead
    -- AND locked_at > NOW() + INTERVAL '1 minute' --? ahead
    -- AND DATE_PART('epoch', locked_at) = ANY(%(ahead)s::float8[]) --? ahead
    AND event_id <> ALL(%(excluded)s::uuid[])
ORDER BY locked_at, ctid
LIMIT (SELECT %(page)s::bigint);

-- name: own_leases
-- The leases of one RELAY_ID, oldest first: before its relay's first claim these are of its former life.
-- Index: idx_openoutbox_stuck_leases, all of it. Locks: none. Parameters: relay_id, most. Result: the holder, the fence, the id.
SELECT
    locked_by,
    locked_at,
    event_id::text
FROM openoutbox_events
WHERE
    status = 'DELIVERING'
    AND locked_by = %(relay_id)s::text
    AND ISFINITE(locked_at)
ORDER BY locked_at
LIMIT (SELECT %(most)s::bigint);

-- name: leases_ahead
-- The times of leases that are more than a minute ahead of the database's clock, MOST rows of them, the last ones first; and
-- NULL once where there are leases without a time.
-- Index: idx_openoutbox_stuck_leases, backwards; one probe each where there is none. Locks: none. Parameters: most.
-- Result: the times, in seconds since 1970.
SELECT DISTINCT DATE_PART('epoch', locked_at)
FROM (
    SELECT locked_at
    FROM openoutbox_events
    WHERE status = 'DELIVERING' AND locked_at > NOW() + INTERVAL '1 minute'
    ORDER BY locked_at DESC
    LIMIT (SELECT %(most)s::bigint)
) AS leases
UNION ALL
(
    SELECT NULL
    FROM openoutbox_events
    WHERE status = 'DELIVERING' AND locked_at IS NULL
    LIMIT (SELECT 1)
);

-- name: due_now
-- PENDING -> PENDING: events that were inserted before the database's clock was set back, and were due at once, are due
-- now. Run by an operator, on check's advice; they keep their order among themselves.
-- Index: idx_openoutbox_metrics_lag. Locks: the rows it writes. Parameters: none.
UPDATE openoutbox_events SET
    available_at = NOW(),
    updated_at = NOW()
WHERE
    status = 'PENDING'
    AND created_at > NOW() + INTERVAL '1 minute'
    AND available_at <= created_at;
