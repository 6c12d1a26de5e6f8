-- Verdicts, fenced by the lease: one statement for each kind.
-- A row that another session has locked is skipped, so that no verdict waits for it; lease:held says which rows that were.
-- FOR NO KEY UPDATE is the lock that the UPDATE itself takes: a foreign key's check on event_id is no reason to skip.
-- A DELETE takes FOR UPDATE, and waits for such a check: so its rows are chosen by that lock.
-- Tag prepared: takes back for this transaction what session:prepared has set, before a row is changed; and has the list
-- of ids hashed, which a plan that is kept would compare with each row. IS TRUE keeps the planner from making a join of it. Such a plan
-- finds the rows by locked_at alone.
-- Tag fan_out, with the column of extensions/fan_out.sql: what is not delivered keeps the names of the destinations that
-- have acknowledged it, by the parameter acknowledged (a JSON object from event ids to names with commas between them); what
-- is delivered forgets them, so that a replay goes to all.
-- Tag checked, where the table has BEFORE triggers: returns each row's status, last. A trigger that returns OLD leaves a row as it
-- was, and it counts as written.

-- name: delivered
-- DELIVERING -> DELIVERED: the broker has acknowledged these events. Tag delete: the rows are deleted instead, for
-- ON_DELIVERED=delete.
-- Index: idx_openoutbox_stuck_leases by the exact locked_at (or the primary key), then a TID scan; the fence is
-- status, locked_by and locked_at, so that what comes after the lease was reaped changes nothing.
-- Locks: the rows it writes, skipping those that another session has locked.
-- Parameters: ids, relay_id, fence. Result: the row count.
UPDATE openoutbox_events SET --? !delete
    status = 'DELIVERED', --? !delete
    delivered_at = NOW(), --? !delete
    locked_by = NULL, --? !delete
    locked_at = NULL, --? !delete
    -- acknowledged_by = NULL, --? !delete fan_out
    updated_at = NOW() --? !delete
-- DELETE FROM openoutbox_events --? delete
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
    FOR NO KEY UPDATE SKIP LOCKED --? !delete
    -- FOR UPDATE SKIP LOCKED --? delete
)); --? !checked
-- )) RETURNING status; --? checked

-- name: retried
-- DELIVERING -> PENDING after a failed attempt: one more attempt, due again after each event's own delay.
-- Index: idx_openoutbox_stuck_leases by the exact locked_at (or the primary key), then a TID scan; the fence is
-- status, locked_by and locked_at, so that what comes after the lease was reaped changes nothing.
-- Locks: the rows it writes, skipping those that another session has locked.
-- Parameters: ids, errors, delays (seconds; three arrays of one length), relay_id, fence. Result: the row count.
-- LEAST keeps attempts inside INT; the delay's bound (a century) keeps the sum inside TIMESTAMPTZ.
UPDATE openoutbox_events AS event SET
    status = 'PENDING',
    attempts = LEAST(GREATEST(event.attempts, 0), 2147483646) + 1,
    last_error = failed.error,
    available_at = NOW() + MAKE_INTERVAL(secs => LEAST(failed.delay, 3155760000)),
    locked_by = NULL,
    locked_at = NULL,
    -- acknowledged_by --? fan_out
    -- = COALESCE(STRING_TO_ARRAY(%(acknowledged)s::jsonb ->> event.event_id::text, ','), event.acknowledged_by), --? fan_out
    updated_at = NOW()
FROM UNNEST(%(ids)s::uuid[], %(errors)s::text[], %(delays)s::float8[]) AS failed (event_id, error, delay)
WHERE
    event.event_id = failed.event_id
    AND event.ctid = ANY(ARRAY(
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
    )); --? !checked
    -- )) RETURNING event.status; --? checked

-- name: buried
-- DELIVERING -> DEAD: the last failed attempt, or one that can never succeed.
-- Index: idx_openoutbox_stuck_leases by the exact locked_at (or the primary key), then a TID scan; the fence is
-- status, locked_by and locked_at, so that what comes after the lease was reaped changes nothing.
-- Locks: the rows it writes, skipping those that another session has locked.
-- Parameters: ids, errors (two arrays of one length), relay_id, fence. Result: the row count.
UPDATE openoutbox_events AS event SET
    status = 'DEAD',
    attempts = LEAST(GREATEST(event.attempts, 0), 2147483646) + 1,
    last_error = failed.error,
    locked_by = NULL,
    locked_at = NULL,
    -- acknowledged_by --? fan_out
    -- = COALESCE(STRING_TO_ARRAY(%(acknowledged)s::jsonb ->> event.event_id::text, ','), event.acknowledged_by), --? fan_out
    updated_at = NOW()
FROM UNNEST(%(ids)s::uuid[], %(errors)s::text[]) AS failed (event_id, error)
WHERE
    event.event_id = failed.event_id
    AND event.ctid = ANY(ARRAY(
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
    )); --? !checked
    -- )) RETURNING event.status; --? checked

-- name: released
-- DELIVERING -> PENDING with attempts as before: events that the broker does not have, as far as is known.
-- available_at stays: the row was due when it was claimed, so it is available at once and keeps its place.
-- Index: idx_openoutbox_stuck_leases by the exact locked_at (or the primary key), then a TID scan; the fence is
-- status, locked_by and locked_at, so that what comes after the lease was reaped changes nothing.
-- Locks: the rows it writes, skipping those that another session has locked.
-- Parameters: ids, relay_id, fence. Result: event type, place (in seconds since 1970) and status of each row.
UPDATE openoutbox_events SET
    status = 'PENDING',
    locked_by = NULL,
    locked_at = NULL,
    -- acknowledged_by --? fan_out
    -- = COALESCE(STRING_TO_ARRAY(%(acknowledged)s::jsonb ->> event_id::text, ','), acknowledged_by), --? fan_out
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
RETURNING event_type, DATE_PART('epoch', available_at), DATE_PART('epoch', created_at), status;
