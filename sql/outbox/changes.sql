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
-- Index: the primary key (status as in claim, tag chosen). Locks: the row. Parameters: event_id. Result: its id when it was changed.
UPDATE openoutbox_events SET
    available_at = NOW(),
    updated_at = NOW()
WHERE event_id = %(event_id)s::uuid AND status NOT IN ('DELIVERING', 'DELIVERED', 'DEAD')
RETURNING event_id;

-- name: bury
-- PENDING -> DEAD, by the operator: it is not tried again until it is replayed.
-- Index: the primary key (status as in claim, tag chosen). Locks: the row. Parameters: event_id, error. Result: its id when it was changed.
UPDATE openoutbox_events SET
    status = 'DEAD',
    last_error = %(error)s::text,
    updated_at = NOW()
WHERE event_id = %(event_id)s::uuid AND status NOT IN ('DELIVERING', 'DELIVERED', 'DEAD')
RETURNING event_id;

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
-- One change, by its id or by its key. Indexes: change_id, openoutbox_changes_once. Locks: none.
-- Tags: by_id or by_key. Parameters: change_id; or outbox, changed_by, idempotency_key. Result: its columns.
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
    id
FROM openoutbox_changes
WHERE change_id = %(change_id)s::uuid AND outbox = %(outbox)s::text --? by_id
-- WHERE outbox = %(outbox)s::text AND changed_by = %(changed_by)s::text AND idempotency_key = %(idempotency_key)s::text --? by_key
;

-- name: list
-- Up to LIMIT changes, newest first, before the one numbered BEFORE. Index: the primary key. Locks: none.
-- Parameters: outbox, before, limit. Result: as show's.
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
    id
FROM openoutbox_changes
WHERE outbox = %(outbox)s::text AND id < %(before)s::bigint
ORDER BY id DESC
LIMIT %(limit)s::bigint;

-- name: rights
-- Whether this user may read the record of changes, and may write it. Catalog only, locks nothing.
-- Parameters: table (quoted). Result: one row, of NULLs when there is no such table.
SELECT
    HAS_TABLE_PRIVILEGE(TO_REGCLASS(%(table)s::text), 'SELECT'),
    HAS_TABLE_PRIVILEGE(TO_REGCLASS(%(table)s::text), 'INSERT')
    AND HAS_TABLE_PRIVILEGE(TO_REGCLASS(%(table)s::text), 'UPDATE');
