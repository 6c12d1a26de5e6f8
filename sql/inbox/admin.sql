-- What an operator asks of the inbox.

-- name: prunable
-- How many marks are older than BEFORE, counted up to MOST.
-- Index: the one on received_at, index-only where the table has been vacuumed. Locks: none.
-- Parameters: before, most. Result: the count.
SELECT COUNT(*)
FROM (
    SELECT 1
    FROM openoutbox_inbox
    WHERE received_at < %(before)s::timestamptz
    LIMIT %(most)s::bigint
) AS old;

-- name: prune
-- Deletes up to LIMIT marks that are older than BEFORE, oldest first, from AFTER on.
-- Index: the one on received_at, from where the batch before has ended, so that what that one left
-- dead in the index is not walked again; then a TID scan.
-- Locks: the rows it deletes, skipping those that another session holds: it waits for no row.
-- Parameters: limit, before, after, excluded (names). Result: how many are deleted, the last chosen one's time (NULL when
-- none was left), and the names of those that a trigger or a rule kept.
WITH old AS (
    SELECT
        ctid AS tid,
        received_at AS since,
        event_id || ' of ' || consumer AS name
    FROM openoutbox_inbox
    WHERE received_at < %(before)s::timestamptz AND received_at >= %(after)s::timestamptz
        AND event_id || ' of ' || consumer <> ALL(%(excluded)s::text[])
    ORDER BY received_at
    LIMIT %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),

gone AS (
    DELETE FROM openoutbox_inbox
    WHERE ctid = ANY(ARRAY(SELECT tid FROM old))
    RETURNING event_id || ' of ' || consumer AS name
)

SELECT
    (SELECT COUNT(*) FROM gone),
    MAX(since),
    COALESCE(ARRAY_AGG(name) FILTER (WHERE name NOT IN (SELECT gone.name FROM gone)), ARRAY[]::text[])
FROM old;

-- name: oldest
-- The mark that a prune with a limit of 1 would delete. Index and parameters: as prune, without a limit. Locks: that row,
-- skipping those that another session holds, until the transaction ends. Result: its name and time, or no row.
SELECT
    event_id || ' of ' || consumer,
    received_at
FROM openoutbox_inbox
WHERE received_at < %(before)s::timestamptz AND received_at >= %(after)s::timestamptz
    AND event_id || ' of ' || consumer <> ALL(%(excluded)s::text[])
ORDER BY received_at
LIMIT 1
FOR UPDATE SKIP LOCKED;

-- name: size
-- The size of the inbox with its indexes, and the age of its oldest mark. Index: the one on received_at.
-- Locks: none. Parameters: table (quoted). Result: bytes, the time of the oldest mark (NULL in an empty inbox).
SELECT
    PG_TOTAL_RELATION_SIZE(TO_REGCLASS(%(table)s::text)),
    (SELECT MIN(received_at) FROM openoutbox_inbox);

-- name: consumers
-- What each consumer has marked, among the newest MOST marks. Index: the one on received_at, backward.
-- Locks: none. Parameters: most. Result: consumer, marks, times of the oldest and of the newest of them.
SELECT
    consumer,
    COUNT(*),
    MIN(received_at),
    MAX(received_at)
FROM (
    SELECT
        consumer,
        received_at
    FROM openoutbox_inbox
    ORDER BY received_at DESC
    LIMIT %(most)s::bigint
) AS newest
GROUP BY consumer
ORDER BY consumer;
