-- Pauses: what relays read, and what pause and resume write. Needs the table of extensions/pause.sql.

-- name: read
-- The pauses in force. Index: none, the table has a handful of rows. Locks: none.
-- Result: scope, name, until, who, why, since; the oldest first.
SELECT
    scope,
    name,
    until,
    paused_by,
    reason,
    since
FROM openoutbox_pauses
WHERE until IS NULL OR until > NOW()
ORDER BY since, scope, name;

-- name: pause
-- Set a pause, or change its end, author and reason. Index: the primary key. Locks: its row.
-- Parameters: scope, name, until or for_seconds (both NULL: until resumed), paused_by, reason. Result: as read.
INSERT INTO openoutbox_pauses AS pause (scope, name, until, paused_by, reason)
VALUES (
    %(scope)s::text,
    %(name)s::text,
    COALESCE(%(until)s::timestamptz, NOW() + MAKE_INTERVAL(secs => %(for_seconds)s::float8)),
    %(paused_by)s::text,
    %(reason)s::text
)
ON CONFLICT (scope, name) DO UPDATE SET
    until = excluded.until,
    paused_by = excluded.paused_by,
    reason = excluded.reason
RETURNING scope, name, until, paused_by, reason, since;

-- name: resume
-- End pauses: the one of SCOPE and NAME, or with SCOPE NULL all. Index: the primary key. Locks: the rows that it deletes.
-- Parameters: scope, name. Result: as read, those that were in force.
WITH ended AS (
    DELETE FROM openoutbox_pauses
    WHERE %(scope)s::text IS NULL OR (scope = %(scope)s::text AND name = %(name)s::text)
    RETURNING scope, name, until, paused_by, reason, since
)

SELECT
    scope,
    name,
    until,
    paused_by,
    reason,
    since
FROM ended
WHERE until IS NULL OR until > NOW()
ORDER BY since, scope, name;

-- name: forget_ended
-- Delete the pauses whose time is over. Index: none. Locks: the rows that it deletes. Parameters: none.
DELETE FROM openoutbox_pauses
WHERE until <= NOW();

-- name: held
-- How many of the SAMPLE oldest due rows each pause holds back.
-- Index: idx_openoutbox_processing_queue, SAMPLE entries at most, after claim:guard in its transaction. Locks: none.
-- Parameters: paused (patterns of LIKE), sample. Result for each pattern, in their order: how many; how many rows were
-- looked at.
WITH looked AS MATERIALIZED (
    SELECT event_type
    FROM openoutbox_events
    WHERE status = 'PENDING' AND available_at <= NOW()
    ORDER BY available_at, created_at
    LIMIT (SELECT %(sample)s::bigint)
)

SELECT
    (SELECT COUNT(*) FROM looked WHERE looked.event_type LIKE pause.pattern),
    (SELECT COUNT(*) FROM looked)
FROM UNNEST(%(paused)s::text[]) WITH ORDINALITY AS pause (pattern, place)
ORDER BY pause.place;

-- name: oldest_due
-- The event that has been due longest of those that no pause holds, if it is among the SAMPLE oldest due rows.
-- Index: idx_openoutbox_processing_queue, SAMPLE entries at most, after claim:guard in its transaction. Locks: none.
-- Parameters: paused (patterns of LIKE), sample. Result: its id, and its age in seconds; no row without one.
SELECT
    event_id,
    CASE WHEN ISFINITE(available_at) THEN GREATEST(DATE_PART('epoch', NOW() - available_at), 0) ELSE 0 END
FROM (
    SELECT
        event_id,
        event_type,
        available_at,
        created_at
    FROM openoutbox_events
    WHERE status = 'PENDING' AND available_at <= NOW()
    ORDER BY available_at, created_at
    LIMIT (SELECT %(sample)s::bigint)
) AS looked
WHERE event_type NOT LIKE ALL(%(paused)s::text[])
ORDER BY available_at, created_at
LIMIT 1;
