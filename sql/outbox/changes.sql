-- What the console changes, one event at a time, and the record of all its changes.

-- name: lock
-- One event, locked until the transaction ends. Index: the primary key. Locks: the row; waits as lock_guard says.
-- Parameters: event_id. Result: status, failed attempts, whether it is due only later, when it was last changed.
SELECT
    status,
    attempts,
    available_at > NOW(),
    updated_at
FROM openoutbox_events
WHERE event_id = %(event_id)s::uuid
FOR UPDATE;

-- name: retry
-- PENDING stays PENDING and is due now: a delay after a failed attempt, or a scheduled time, is over.
-- Index: the primary key (status as in claim, tag chosen). Locks: the row. Parameters: event_id. Result: whether it was changed; no row where it was kept.
UPDATE openoutbox_events SET
    available_at = NOW(),
    updated_at = NOW()
WHERE event_id = %(event_id)s::uuid AND status NOT IN ('DELIVERING', 'DELIVERED', 'DEAD')
RETURNING available_at = NOW();

-- name: bury
-- PENDING -> DEAD, by the operator: it is not tried again until it is replayed.
-- Index: the primary key (status as in claim, tag chosen). Locks: the row. Parameters: event_id, error. Result: whether it was changed; no row where it was kept.
UPDATE openoutbox_events SET
    status = 'DEAD',
    last_error = %(error)s::text,
    updated_at = NOW()
WHERE event_id = %(event_id)s::uuid AND status NOT IN ('DELIVERING', 'DELIVERED', 'DEAD')
RETURNING status = 'DEAD';

-- name: cancel
-- Deletes PENDING events that no relay holds, and keeps their rows: what openoutbox_cancel does, with a record. A relay may
-- have had one before unless it was never tried and nothing has changed it: the change counts those.
-- Tags: as bulk:change's. Index: the primary key (status as in claim, tag chosen). Locks: the rows, skipping those that
-- another session holds, and the change's. Parameters: ids, unchanged; outbox, change_id. Result: of each event that was
-- chosen its id and whether it was deleted.
WITH chosen AS (
    SELECT event_id
    FROM openoutbox_events
    WHERE
        event_id = ANY(%(ids)s::uuid[])
        AND status NOT IN ('DELIVERING', 'DELIVERED', 'DEAD')
        AND updated_at <= %(unchanged)s::timestamptz
        -- AND available_at > NOW() --? later
        -- AND attempts = 0 --? untried
    FOR UPDATE SKIP LOCKED
),

gone AS (
    DELETE FROM openoutbox_events
    WHERE event_id = ANY(ARRAY(SELECT event_id FROM chosen)) AND status NOT IN ('DELIVERING', 'DELIVERED', 'DEAD')
    RETURNING
        event_id,
        event_type,
        partition_key,
        payload,
        headers,
        attempts,
        last_error,
        available_at,
        created_at,
        attempts <> 0 OR updated_at <> created_at AS may_have_been_sent
),

kept AS (
    INSERT INTO openoutbox_cancelled (
        outbox, change_id, event_id, event_type, partition_key, payload, headers, attempts, last_error, available_at,
        created_at, may_have_been_sent
    )
    SELECT
        %(outbox)s::text,
        %(change_id)s::uuid,
        event_id,
        event_type,
        partition_key,
        payload,
        headers,
        attempts,
        last_error,
        available_at,
        created_at,
        may_have_been_sent
    FROM gone
),

counted AS (
    UPDATE openoutbox_changes SET
        may_have_been_sent
        = COALESCE(may_have_been_sent, 0) + (SELECT COUNT(*) FILTER (WHERE may_have_been_sent) FROM gone)
    WHERE change_id = %(change_id)s::uuid
)

SELECT
    chosen.event_id,
    gone.event_id IS NOT NULL
FROM chosen
LEFT JOIN gone ON chosen.event_id = gone.event_id;

-- name: begin
-- Records that a change begins; no row when this key was used before. Index: openoutbox_changes_once. Locks: the new row.
-- Parameters: change_id, outbox, action, selection, changed_by, reason, idempotency_key, expected. Result: its id.
INSERT INTO openoutbox_changes (
    change_id, outbox, action, selection, changed_by, reason, idempotency_key, expected
)
VALUES (
    %(change_id)s::uuid,
    %(outbox)s::text,
    %(action)s::text,
    %(selection)s::text,
    %(changed_by)s::text,
    %(reason)s::text,
    %(idempotency_key)s::text,
    %(expected)s::bigint
)
ON CONFLICT ON CONSTRAINT openoutbox_changes_once DO NOTHING
RETURNING change_id;

-- name: progress
-- Records how far a change has come, and how it ended. Index: change_id. Locks: the row.
-- Parameters: change_id, events, state, error. Result: who stopped it, or what else went wrong; NULL while it may go on.
UPDATE openoutbox_changes SET
    events = %(events)s::bigint,
    state = %(state)s::text,
    error = CASE WHEN %(state)s::text <> 'complete' THEN COALESCE(error, %(error)s::text) END,
    updated_at = NOW()
WHERE change_id = %(change_id)s::uuid
RETURNING error;

-- name: stop
-- Asks the process that makes a change to stop it, wherever that is: its next progress returns the reason.
-- Index: change_id. Locks: the row. Parameters: change_id, outbox, error.
UPDATE openoutbox_changes SET error = %(error)s::text
WHERE change_id = %(change_id)s::uuid AND outbox = %(outbox)s::text AND state = 'running' AND error IS NULL;

-- name: show
-- One change, by its id or by its key; with the tag before up to LIMIT changes, newest first, before the one numbered
-- BEFORE. Indexes: change_id, openoutbox_changes_once, the primary key. Locks: none.
-- Tags: by_id, by_key or before. Parameters: outbox; change_id, or changed_by and idempotency_key, or before and limit.
-- Result: its columns; the last one is NULL where an earlier version made the table.
SELECT
    change_id,
    action,
    selection,
    changed_by,
    reason,
    CASE
        WHEN state <> 'running' OR updated_at >= NOW() - INTERVAL '2 minutes' THEN state
        WHEN error IS NULL THEN 'interrupted'
        ELSE 'stopped'
    END,
    events,
    expected,
    error,
    started_at,
    updated_at,
    id,
    (TO_JSONB(change) ->> 'may_have_been_sent')::bigint
FROM openoutbox_changes AS change
WHERE change_id = %(change_id)s::uuid AND outbox = %(outbox)s::text --? by_id
-- WHERE outbox = %(outbox)s::text AND changed_by = %(changed_by)s::text AND idempotency_key = %(idempotency_key)s::text --? by_key
-- WHERE outbox = %(outbox)s::text AND id < %(before)s::bigint --? before
-- ORDER BY id DESC --? before
-- LIMIT %(limit)s::bigint --? before
;

-- name: rights
-- Whether this user may read the record of changes, and may write it. Catalog only, locks nothing.
-- Parameters: table (quoted). Result: one row, of NULLs when there is no such table.
SELECT
    HAS_TABLE_PRIVILEGE(TO_REGCLASS(%(table)s::text), 'SELECT'),
    HAS_TABLE_PRIVILEGE(TO_REGCLASS(%(table)s::text), 'INSERT')
    AND HAS_TABLE_PRIVILEGE(TO_REGCLASS(%(table)s::text), 'UPDATE');
