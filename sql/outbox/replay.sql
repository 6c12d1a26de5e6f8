-- Replays: how many events would be taken back, taking them back in batches, and the record of it.

-- name: replayable
-- How many events replay would take back, counted up to MOST; and the latest time among those counted.
-- Tags: dead or delivered.
-- Index: idx_openoutbox_prune_dead or idx_openoutbox_prune_delivered, or the primary key when ids are given. Locks: none.
-- Parameters: until, most, and where not NULL: since, event_type, partition_key, ids. Result: count, time or NULL.
SELECT
    COUNT(*),
    MAX(since)
FROM (
    SELECT updated_at AS since --? dead
    -- SELECT delivered_at AS since --? delivered
    FROM openoutbox_events
    WHERE
        status = 'DEAD' --? dead
        -- status = 'DELIVERED' --? delivered
        AND (%(since)s::timestamptz IS NULL OR updated_at >= %(since)s::timestamptz) --? dead
        -- AND (%(since)s::timestamptz IS NULL OR delivered_at >= %(since)s::timestamptz) --? delivered
        AND updated_at < %(until)s::timestamptz --? dead
        -- AND delivered_at < %(until)s::timestamptz --? delivered
        AND (%(event_type)s::text IS NULL OR event_type = %(event_type)s::text)
        AND (%(partition_key)s::text IS NULL OR partition_key = %(partition_key)s::text)
        AND (%(ids)s::uuid[] IS NULL OR event_id = ANY(%(ids)s::uuid[]))
    LIMIT %(most)s::bigint
) AS found;

-- name: replay
-- DEAD or DELIVERED -> PENDING, by the operator (invariant 6): up to LIMIT events, oldest first, as if never tried.
-- Tags: dead or delivered.
-- Index: idx_openoutbox_prune_dead or idx_openoutbox_prune_delivered from AFTER on, or the primary key when ids are given;
-- then a TID scan.
-- Locks: the rows it writes, skipping those that another session holds.
-- UNTIL is at most the time at which the replay began, so that an event that is dead or delivered again meanwhile is not
-- replayed twice. Parameters: limit, after, until, and where not NULL: since, event_type, partition_key, ids.
-- Result: what each event was before, for the record.
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
        status = 'DEAD' --? dead
        -- status = 'DELIVERED' --? delivered
        AND updated_at >= %(after)s::timestamptz --? dead
        -- AND delivered_at >= %(after)s::timestamptz --? delivered
        AND (%(since)s::timestamptz IS NULL OR updated_at >= %(since)s::timestamptz) --? dead
        -- AND (%(since)s::timestamptz IS NULL OR delivered_at >= %(since)s::timestamptz) --? delivered
        AND updated_at < %(until)s::timestamptz --? dead
        -- AND delivered_at < %(until)s::timestamptz --? delivered
        AND (%(event_type)s::text IS NULL OR event_type = %(event_type)s::text)
        AND (%(partition_key)s::text IS NULL OR partition_key = %(partition_key)s::text)
        AND (%(ids)s::uuid[] IS NULL OR event_id = ANY(%(ids)s::uuid[]))
    ORDER BY updated_at --? dead
    -- ORDER BY delivered_at --? delivered
    LIMIT %(limit)s::bigint
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
    WHERE ctid = ANY(ARRAY(SELECT tid FROM chosen)) AND status = 'DEAD' --? dead
    -- WHERE ctid = ANY(ARRAY(SELECT tid FROM chosen)) AND status = 'DELIVERED' --? delivered
    RETURNING event_id
)

SELECT
    chosen.event_id,
    chosen.status,
    chosen.attempts,
    chosen.last_error,
    chosen.since
FROM chosen
INNER JOIN replayed ON chosen.event_id = replayed.event_id
ORDER BY chosen.since;

-- name: record
-- Records which events a batch of a replay took back, in the batch's own transaction.
-- Needs the optional table of sql/outbox/extensions/replay_audit.sql. Index: none. Locks: the new rows.
-- Parameters: replay_id, outbox, replayed_by, reason; and arrays of one length: ids, statuses, attempts, errors, sinces.
INSERT INTO openoutbox_replays (
    replay_id, outbox, event_id, from_status, from_attempts, from_error, from_since, replayed_by, reason
)
SELECT
    %(replay_id)s::uuid,
    %(outbox)s::text,
    was.event_id,
    was.status,
    was.attempts,
    was.error,
    was.since,
    SESSION_USER || ' (' || %(replayed_by)s::text || ')',
    %(reason)s::text
FROM UNNEST(
    %(ids)s::uuid[], %(statuses)s::text[], %(attempts)s::int[], %(errors)s::text[], %(sinces)s::timestamptz[]
) AS was (event_id, status, attempts, error, since);

-- name: may_record
-- Whether an extension's table is there and this user may insert into it. Catalog only, locks nothing.
-- Parameters: table (quoted). Result: one row, NULL when it is not there.
SELECT HAS_TABLE_PRIVILEGE(TO_REGCLASS(%(table)s::text), 'INSERT');

-- name: first_replays
-- When events were replayed for the first time, for the delivery log; those that never were are left out.
-- Needs the optional table of sql/outbox/extensions/replay_audit.sql, and SELECT on it.
-- Index: openoutbox_replays_event_id. Locks: none. Parameters: outbox, ids. Result: event_id, time.
SELECT
    event_id,
    MIN(replayed_at)
FROM openoutbox_replays
WHERE
    event_id = ANY(%(ids)s::uuid[])
    AND outbox = %(outbox)s::text
GROUP BY event_id;
