-- What inbox.process sends: a row counts the tries of an event whose handler has not succeeded yet.

-- name: enter
-- Makes the row that counts, unless the event was handled. Index: both primary keys.
-- Locks: the new row; it waits for another consumer that makes the same row, which commits at once.
-- Parameters: consumer, event_id.
INSERT INTO openoutbox_inbox_tries (consumer, event_id)
SELECT
    %(consumer)s::text,
    %(event_id)s::text
WHERE NOT EXISTS (
    SELECT 1
    FROM openoutbox_inbox
    WHERE consumer = %(consumer)s::text AND event_id = %(event_id)s::text
)
ON CONFLICT DO NOTHING;

-- name: look
-- Whether the event was handled, and the row that counts, locked. NULL where another consumer holds that row.
-- Index: both primary keys. Locks: the row; it waits for none.
-- Parameters: consumer, event_id. Result: handled, tries, state, whether a try began within the last 5 s.
SELECT
    EXISTS (
        SELECT 1
        FROM openoutbox_inbox
        WHERE consumer = %(consumer)s::text AND event_id = %(event_id)s::text
    ),
    counted.tries,
    counted.state,
    counted.begun_at > CLOCK_TIMESTAMP() - INTERVAL '5 s'
FROM (VALUES (1)) AS one (line)
LEFT JOIN LATERAL (
    SELECT
        tries,
        state,
        begun_at
    FROM openoutbox_inbox_tries
    WHERE consumer = %(consumer)s::text AND event_id = %(event_id)s::text
    FOR UPDATE SKIP LOCKED
) AS counted ON TRUE;

-- name: seen
-- As look, without the lock: after a statement that wrote no row, whether another consumer's work is the reason.
-- Index: both primary keys. Locks: nothing. Parameters: consumer, event_id. Result: handled, tries, state.
SELECT
    EXISTS (
        SELECT 1
        FROM openoutbox_inbox
        WHERE consumer = %(consumer)s::text AND event_id = %(event_id)s::text
    ),
    counted.tries,
    counted.state
FROM (VALUES (1)) AS one (line)
LEFT JOIN openoutbox_inbox_tries AS counted
    ON counted.consumer = %(consumer)s::text AND counted.event_id = %(event_id)s::text;

-- name: begin
-- Counts a try. Its transaction holds the row. Index: the primary key. Parameters: consumer, event_id.
UPDATE openoutbox_inbox_tries
SET tries = tries + 1, begun_at = CLOCK_TIMESTAMP(), changed_at = NOW()
WHERE consumer = %(consumer)s::text AND event_id = %(event_id)s::text;

-- name: hold
-- Locks the row for as long as the handler runs. No row where another consumer has counted another try since.
-- Index: the primary key. Locks: the row. It waits, because another consumer that looks holds the row for a moment.
-- Parameters: consumer, event_id, tries.
SELECT 1
FROM openoutbox_inbox_tries
WHERE
    consumer = %(consumer)s::text
    AND event_id = %(event_id)s::text
    AND tries = %(tries)s::integer
    AND state <> 'dead'
FOR UPDATE;

-- name: finish
-- The event is handled: nothing is to be counted. Index: the primary key. Parameters: consumer, event_id.
DELETE FROM openoutbox_inbox_tries
WHERE consumer = %(consumer)s::text AND event_id = %(event_id)s::text;

-- name: fail
-- The try has failed, and others may follow. Index: the primary key. Parameters: consumer, event_id, tries, error.
UPDATE openoutbox_inbox_tries
SET begun_at = NULL, error = %(error)s::text, changed_at = NOW()
WHERE
    consumer = %(consumer)s::text
    AND event_id = %(event_id)s::text
    AND tries = %(tries)s::integer;

-- name: bury
-- The last try has failed: the row becomes a dead letter, with the whole message. Index: the primary key.
-- Parameters: consumer, event_id, tries, error, event_type, partition_key, payload, headers.
UPDATE openoutbox_inbox_tries
SET
    state = 'dead',
    begun_at = NULL,
    changed_at = NOW(),
    error = %(error)s::text,
    event_type = %(event_type)s::text,
    partition_key = %(partition_key)s::text,
    payload = %(payload)s::BYTEA,
    headers = %(headers)s::JSON
WHERE
    consumer = %(consumer)s::text
    AND event_id = %(event_id)s::text
    AND tries = %(tries)s::integer
    AND state <> 'dead';

-- name: set_aside
-- A dead letter without a try; a row that is there stays as it is. Index: the primary key.
-- Parameters: consumer, event_id, error, event_type, partition_key, payload, headers.
INSERT INTO openoutbox_inbox_tries (
    consumer, event_id, state, error, event_type, partition_key, payload, headers
)
VALUES (
    %(consumer)s::text,
    %(event_id)s::text,
    'dead',
    %(error)s::text,
    %(event_type)s::text,
    %(partition_key)s::text,
    %(payload)s::BYTEA,
    %(headers)s::JSON
)
ON CONFLICT DO NOTHING;

-- name: retries
-- The dead letters that an operator has marked to be tried again, oldest first. Index: the one of changed_at.
-- Locks: nothing. Parameters: consumer, most. Result: event_id, event_type, partition_key, payload, headers as text.
SELECT
    event_id,
    event_type,
    partition_key,
    payload,
    headers::text
FROM openoutbox_inbox_tries
WHERE consumer = %(consumer)s::text AND state = 'retry'
ORDER BY changed_at
LIMIT %(most)s::bigint;
