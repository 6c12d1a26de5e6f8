-- What an application sends to enqueue events.

-- name: insert
-- Adds events to the outbox: any number of them in one statement, in the transaction of its sender.
-- Parameters are arrays of equal length, one element an event; rows are inserted in the order of the arrays.
-- delays are seconds after the database's NOW(), the start of the transaction; available_ats are exact times; where
-- both are NULL an event is due at once.
-- An event_id that is there already is left as it is, so that sending the same events again changes nothing. ON
-- CONFLICT names no column on purpose: naming one needs SELECT on it, and INSERT is all this statement needs.
-- Index: the primary key. Locks: the new rows; it waits for a transaction in flight that inserts the same event_id.
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, available_at)
SELECT
    new.event_id,
    new.event_type,
    new.partition_key,
    new.payload,
    new.headers,
    COALESCE(new.available_at, NOW() + MAKE_INTERVAL(secs => new.delay), NOW())
FROM
    UNNEST(
        %(event_ids)s::UUID[],
        %(event_types)s::TEXT[],
        %(partition_keys)s::TEXT[],
        %(payloads)s::BYTEA[],
        %(headers)s::JSONB[],
        %(delays)s::DOUBLE PRECISION[],
        %(available_ats)s::TIMESTAMPTZ[]
    ) AS new (event_id, event_type, partition_key, payload, headers, delay, available_at)
ON CONFLICT DO NOTHING;

-- name: insert_one
-- As insert, for one event: without arrays it costs the application half as much. Tag held: it has a delay or a time.
-- Tag again: after an insert that added fewer rows than it had. It always fails, so that it adds nothing: with SQLSTATE 23505
-- for an event that is there, else with 22P02, the cast of a text that says how many rows it added. None: a BEFORE trigger
-- left the event out.
-- Index: the primary key. Locks: the new row; it waits for a transaction in flight that inserts the same event_id.
-- WITH added AS ( --? again
INSERT INTO openoutbox_events (
    event_id,
    event_type,
    partition_key,
    payload,
    available_at, --? held
    headers
)
VALUES (
    %(event_id)s::UUID,
    %(event_type)s::TEXT,
    %(partition_key)s::TEXT,
    %(payload)s::BYTEA,
    COALESCE(%(available_at)s::TIMESTAMPTZ, NOW() + MAKE_INTERVAL(secs => %(delay)s::DOUBLE PRECISION)), --? held
    %(headers)s::JSONB
)
ON CONFLICT DO NOTHING --? !again
-- RETURNING 1) SELECT CONCAT('rows added again: ', COUNT(*))::INT FROM added --? again
;

-- name: may_compare
-- Whether this role may call the function of migrate --with sql-api that compares, and whether the table has a trigger that
-- may leave rows out: BEFORE INSERT, FOR EACH ROW. Catalog only. Locks: nothing.
SELECT
    COALESCE(
        HAS_FUNCTION_PRIVILEGE(TO_REGPROCEDURE($name$openoutbox_same(uuid, text, bytea)$name$), 'EXECUTE'), FALSE
    ),
    EXISTS (
        SELECT 1
        FROM pg_catalog.pg_trigger
        WHERE
            tgrelid = TO_REGCLASS($name$openoutbox_events$name$)
            AND tgenabled IN ('O', 'A')
            AND tgtype & 7 = 7
    );

-- name: others
-- The events whose ids are in the outbox with another type or payload (FALSE), or not any more (NULL). The function has the
-- owner's rights: an application may not read. Index: the primary key. Locks: nothing.
SELECT
    given.event_id::TEXT,
    openoutbox_same(given.event_id, given.event_type, given.digest) AS same
FROM
    UNNEST(%(event_ids)s::UUID[], %(event_types)s::TEXT[], %(digests)s::BYTEA[]) AS given (event_id, event_type, digest)
WHERE openoutbox_same(given.event_id, given.event_type, given.digest) IS NOT TRUE;

-- name: lock_keys
-- Takes the lock of each key until the end of the transaction, in one order, so that two calls do not wait in a circle.
-- The number is a class of ours; locks of two integers are apart from those of one.
-- Locks: an advisory lock for each key; it waits for the transaction that holds one.
SELECT PG_ADVISORY_XACT_LOCK(1329745752, keys.hash)
FROM (SELECT DISTINCT HASHTEXT(given.key) AS hash FROM UNNEST(%(keys)s::TEXT[]) AS given (key) ORDER BY hash) AS keys;

-- name: begin
-- No work: on a connection that opens transactions implicitly, any statement opens one. Locks: nothing.
SELECT 1;
