-- Optional: functions that announce events and take them back, for an application in any language.
-- Each works in the caller's transaction, on this table alone. enqueue and enqueue_bytes have the rights of the caller,
-- which needs INSERT on the table. cancel and reschedule have the owner's: a role that may call them reaches every
-- PENDING event whose id it knows, so none may until it is granted EXECUTE. They refuse a table with row-level security,
-- whose policies they would pass by. same has the owner's rights, too: a role that may call it can check what it guesses.
-- Safe to run again; rights that were granted stay. Locks: none on the table.

-- name: enqueue_bytes
-- Announces an event; returns its id. Repeated with the same id it changes nothing; an event of this id that has another
-- type or payload is an error to a caller that may call same, and to any other one a repeat is the warning unchecked.
-- A row that a BEFORE trigger leaves out is an error: a second INSERT, without ON CONFLICT, tells it from a repeat.
CREATE OR REPLACE FUNCTION openoutbox_enqueue_bytes(
    event_type TEXT,
    payload BYTEA,
    partition_key TEXT DEFAULT NULL,
    headers JSONB DEFAULT NULL,
    delay INTERVAL DEFAULT NULL,
    event_id UUID DEFAULT NULL
) RETURNS UUID
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $body$
DECLARE
    id CONSTANT UUID := COALESCE($6, GEN_RANDOM_UUID());
    due CONSTANT TIMESTAMPTZ := NOW() + COALESCE($5, INTERVAL '0');
BEGIN
    IF COALESCE($1, '') = '' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'event_type: empty; it names the topic, subject or stream';
    ELSIF $2 IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'payload: NULL; pass an empty one, or null as JSON';
    ELSIF JSONB_TYPEOF($4) <> 'object' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'headers: no JSON object of names and values';
    ELSIF due < NOW() OR NOT ISFINITE(due) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'delay: negative or infinite';
    END IF;
    INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, available_at)
    VALUES (id, $1, $3, $2, COALESCE($4, '{}'), due)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        BEGIN
            INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, available_at)
            VALUES (id, $1, $3, $2, COALESCE($4, '{}'), due);
            IF NOT FOUND THEN
                RAISE triggered_action_exception
                USING MESSAGE = 'a BEFORE trigger of the outbox left event ' || id || ' out; let it return NEW';
            END IF;
            RETURN id;
        EXCEPTION WHEN unique_violation THEN
            NULL;
        END;
        IF NOT HAS_FUNCTION_PRIVILEGE($name$openoutbox_same(UUID, TEXT, BYTEA)$name$, 'EXECUTE') THEN
            RAISE WARNING 'unchecked' USING DETAIL = 'event ' || id || ' is there already, maybe with other content';
        ELSIF NOT openoutbox_same(id, $1, SHA256($2)) THEN
            RAISE unique_violation USING MESSAGE = 'event_id: ' || id || ' is there with another type or payload';
        END IF;
    END IF;
    RETURN id;
END
$body$;

-- name: enqueue
-- As enqueue_bytes, for JSON. Its text is kept as it was given: spaces, the order of names, numbers of any length.
CREATE OR REPLACE FUNCTION openoutbox_enqueue(
    event_type TEXT,
    payload JSON,
    partition_key TEXT DEFAULT NULL,
    headers JSONB DEFAULT NULL,
    delay INTERVAL DEFAULT NULL,
    event_id UUID DEFAULT NULL
) RETURNS UUID
LANGUAGE sql SET search_path = pg_catalog, public, pg_temp AS $body$
    SELECT openoutbox_enqueue_bytes($1, CONVERT_TO($2::TEXT, 'UTF8'), $3, $4, $5, $6)
$body$;

-- name: cancel
-- Deletes an event that is PENDING and not claimed. True: it is gone and will not be sent again. False: there is none,
-- or it is too late. The warning may_have_been_sent says that a relay had it before: a lease that ended, a failure or
-- a replay; one that changed nothing but the time (reschedule) is not told from those.
-- The row is locked first: a DELETE that then finds none was stopped by a trigger, and by no relay.
CREATE OR REPLACE FUNCTION openoutbox_cancel(event_id UUID) RETURNS BOOLEAN
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $body$
DECLARE
    untouched BOOLEAN;
BEGIN
    IF (SELECT relrowsecurity FROM pg_class WHERE oid = $name$openoutbox_events$name$::REGCLASS) THEN
        RAISE insufficient_privilege USING MESSAGE = 'the outbox has row-level security; delete the row by its policies';
    END IF;
    PERFORM FROM openoutbox_events AS waiting
    WHERE waiting.event_id = $1 AND waiting.status NOT IN ('DELIVERING', 'DELIVERED', 'DEAD')
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    DELETE FROM openoutbox_events AS waiting
    WHERE waiting.event_id = $1
    RETURNING waiting.attempts = 0 AND waiting.updated_at = waiting.created_at INTO untouched;
    IF NOT FOUND THEN
        RAISE triggered_action_exception
        USING MESSAGE = 'a BEFORE trigger or a rule of the outbox keeps event ' || $1 || '; it was not cancelled';
    ELSIF NOT untouched THEN
        RAISE WARNING 'may_have_been_sent' USING DETAIL = 'a relay may have had event ' || $1 || ' before';
    END IF;
    RETURN TRUE;
END
$body$;

-- name: reschedule
-- Gives an event that is PENDING and not claimed another time at which it is due. False: there is none, or it is too late.
CREATE OR REPLACE FUNCTION openoutbox_reschedule(event_id UUID, at TIMESTAMPTZ) RETURNS BOOLEAN
LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $body$
DECLARE
    created TIMESTAMPTZ;
BEGIN
    IF (SELECT relrowsecurity FROM pg_class WHERE oid = $name$openoutbox_events$name$::REGCLASS) THEN
        RAISE insufficient_privilege USING MESSAGE = 'the outbox has row-level security; update the row by its policies';
    ELSIF ISFINITE($2) IS NOT TRUE THEN
        RAISE invalid_parameter_value USING MESSAGE = 'at: NULL or infinite; pass a time';
    END IF;
    SELECT waiting.created_at INTO created
    FROM openoutbox_events AS waiting
    WHERE waiting.event_id = $1 AND waiting.status NOT IN ('DELIVERING', 'DELIVERED', 'DEAD')
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN FALSE;
    ELSIF $2 < created THEN
        RAISE invalid_parameter_value USING MESSAGE = 'at: ' || $2 || ' is before the event was created, ' || created;
    END IF;
    UPDATE openoutbox_events AS waiting SET available_at = $2, updated_at = NOW() WHERE waiting.event_id = $1;
    IF NOT FOUND THEN
        RAISE triggered_action_exception
        USING MESSAGE = 'a BEFORE trigger or a rule of the outbox keeps event ' || $1 || ' as it was; it is due as before';
    END IF;
    RETURN TRUE;
END
$body$;

-- name: same
-- Whether the event of this id has this type, and a payload with this SHA-256. NULL: there is none, or it cannot be told.
CREATE OR REPLACE FUNCTION openoutbox_same(event_id UUID, event_type TEXT, digest BYTEA) RETURNS BOOLEAN
LANGUAGE sql STABLE SET search_path = pg_catalog, public, pg_temp AS $body$
    SELECT stored.event_type = $2 AND SHA256(stored.payload) = $3
    FROM openoutbox_events AS stored
    WHERE
        stored.event_id = $1
        AND NOT (SELECT relrowsecurity FROM pg_class WHERE oid = $name$openoutbox_events$name$::REGCLASS)
$body$;

-- name: revoke
-- The owner's rights come after PUBLIC has lost its own, so that there is no moment with both.
REVOKE ALL ON FUNCTION
openoutbox_cancel(UUID), openoutbox_reschedule(UUID, TIMESTAMPTZ), openoutbox_same(UUID, TEXT, BYTEA)
FROM PUBLIC;

-- name: cancel_as_owner
-- The application has no right to delete.
ALTER FUNCTION openoutbox_cancel(UUID) SECURITY DEFINER;

-- name: reschedule_as_owner
-- The application has no right to update.
ALTER FUNCTION openoutbox_reschedule(UUID, TIMESTAMPTZ) SECURITY DEFINER;

-- name: same_as_owner
-- The application has no right to read.
ALTER FUNCTION openoutbox_same(UUID, TEXT, BYTEA) SECURITY DEFINER;
