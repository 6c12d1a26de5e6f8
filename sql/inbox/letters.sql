-- What an operator asks of dead letters, and does with them. The table is in inbox/create.sql of openoutbox.

-- name: list
-- Dead letters, oldest first, of one consumer or of all. Index: the one of changed_at. Locks: none.
-- Parameters: consumer (NULL for all), most.
-- Result: state, consumer, event_id, event_type, partition_key, tries, since when, payload bytes, error; long texts cut.
SELECT
    state,
    consumer,
    event_id,
    LEFT(event_type, 4097),
    LEFT(partition_key, 4097),
    tries,
    changed_at,
    OCTET_LENGTH(payload),
    LEFT(error, 2000)
FROM openoutbox_inbox_tries
WHERE state <> 'trying' AND (%(consumer)s::text IS NULL OR consumer = %(consumer)s::text)
ORDER BY changed_at, consumer, event_id
LIMIT %(most)s::bigint;

-- name: count
-- How many dead letters each consumer has, of the oldest MOST, and since when. Index: the one of changed_at. Locks: none.
-- Parameters: most. Result: consumer, count, time.
SELECT
    consumer,
    COUNT(*),
    MIN(changed_at)
FROM (
    SELECT
        consumer,
        changed_at
    FROM openoutbox_inbox_tries
    WHERE state <> 'trying' AND state = 'dead'
    ORDER BY changed_at
    LIMIT (SELECT %(most)s::bigint)
) AS oldest
GROUP BY consumer
ORDER BY COUNT(*) DESC, consumer ASC;

-- name: show
-- One dead letter, whole. Index: the primary key. Locks: none. Parameters: consumer, event_id.
-- Result: state, consumer, event_id, event_type, partition_key, tries, since when, error, headers as text, payload.
SELECT
    state,
    consumer,
    event_id,
    event_type,
    partition_key,
    tries,
    changed_at,
    error,
    headers::text,
    payload
FROM openoutbox_inbox_tries
WHERE state <> 'trying' AND consumer = %(consumer)s::text AND event_id = %(event_id)s::text;

-- name: retry
-- Marks one dead letter of a consumer, or all, to be tried again, from the first try on. Index: the primary key.
-- Locks: the rows. Parameters: consumer, event_id (NULL for all). Result: how many there are, and how many were marked.
WITH chosen AS (
    SELECT event_id
    FROM openoutbox_inbox_tries
    WHERE
        state = 'dead'
        AND consumer = %(consumer)s::text
        AND (%(event_id)s::text IS NULL OR event_id = %(event_id)s::text)
    FOR UPDATE
),

marked AS (
    UPDATE openoutbox_inbox_tries
    SET state = 'retry', tries = 0, begun_at = NULL, changed_at = NOW()
    WHERE consumer = %(consumer)s::text AND event_id IN (SELECT chosen.event_id FROM chosen)
    RETURNING 1
)

SELECT
    (SELECT COUNT(*) FROM chosen),
    (SELECT COUNT(*) FROM marked);

-- name: skip
-- Deletes one dead letter and marks its event as handled, so that it has no effect if its message comes again.
-- Index: the primary keys. Locks: the row. Parameters: consumer, event_id. Result: a row if there was one.
WITH gone AS (
    DELETE FROM openoutbox_inbox_tries
    WHERE state <> 'trying' AND consumer = %(consumer)s::text AND event_id = %(event_id)s::text
    RETURNING consumer, event_id
),

marked AS (
    INSERT INTO openoutbox_inbox (consumer, event_id)
    SELECT
        consumer,
        event_id
    FROM gone
    ON CONFLICT DO NOTHING
)

SELECT event_id
FROM gone;
