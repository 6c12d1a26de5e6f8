-- Positions with gaps, drawn from a sequence: the functions, as they are now. They run after
-- the migrations, and may be repeated.

-- name: check_sequence
-- Refuses a sequence that was not carried over with the events, by a dump or by logical replication: its positions would be
-- taken, or below the readers. The newest event is looked up first: the sequence is never behind what was committed.
-- Runs with the owner's rights: a role that may append has none on the feed. Index: the feed's primary key.
CREATE OR REPLACE FUNCTION public.event_check_sequence() RETURNS VOID
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_newest BIGINT;
    v_drawn BIGINT;
BEGIN
    SELECT SequenceNum INTO v_newest FROM public.event_feed ORDER BY SequenceNum DESC LIMIT 1;
    SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END INTO v_drawn FROM public.event_sequencenum_seq;
    IF v_newest > v_drawn THEN
        RAISE EXCEPTION 'event_sequencenum_seq stands at %, below position % of the events: it was not carried over with '
            'them. Run as the owner: SELECT setval(''%'', %)', v_drawn, v_newest, 'public.event_sequencenum_seq'::REGCLASS, v_newest
        USING ERRCODE = 'ES005';
    END IF;
END
$$;

-- name: registration
-- Tells readers that every position this transaction will draw is above the last one drawn so far. It uses a shared
-- advisory lock, which is released after the transaction has become visible: its second number is the low 32 bits of that
-- position, its first is made with the store's secret from this position and the transaction's id. So event_registrations
-- tells it from a lock that a stranger took, and no session knows which one to take before. Who holds one all the same
-- makes nothing wait: the next position has another.
-- It opens a cursor whose name has the position, and never reads it: like the lock it ends with the transaction, or with
-- the savepoint that is rolled back, and only a role that may read the secret can open one for this query. So it proves to
-- event_feed_inserted that the lock is held, where a setting could be replayed after a savepoint.
-- The setting spares a second registration. A session may change it, and its events are then refused.
-- The transaction takes its id first. Runs with the owner's rights, who alone may read the secret.
CREATE OR REPLACE FUNCTION public.event_registration() RETURNS VOID
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_secret CONSTANT BYTEA := (SELECT Secret FROM public.event_secret);
    v_transaction CONSTANT TEXT := concat('public.event'::REGCLASS::OID, ' ', pg_current_xact_id()::XID, ' ');
    v_drawn BIGINT;
    v_lock BYTEA;
    v_cursor REFCURSOR;
    v_opened BOOLEAN := FALSE;
BEGIN
    LOOP
        v_drawn := pg_sequence_last_value('public.event_sequencenum_seq'::REGCLASS);
        IF v_drawn IS NULL THEN -- none drawn yet
            SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END INTO v_drawn
            FROM public.event_sequencenum_seq;
        END IF;
        v_lock := sha256(v_secret || concat('lock ', v_transaction, v_drawn & 4294967295)::BYTEA);
        EXIT WHEN pg_try_advisory_xact_lock_shared(
            ('x' || encode(substr(v_lock, 1, 4), 'hex'))::BIT(32)::INT, v_drawn::BIT(32)::INT
        );
        PERFORM nextval('public.event_sequencenum_seq');
    END LOOP;
    v_cursor := 'registered ' || v_transaction || v_drawn;
    IF current_setting('eventstore.registered', TRUE) <> '' THEN -- by another store, or by this one before that
        v_opened := EXISTS (SELECT FROM pg_cursors WHERE name = v_cursor::TEXT);
    END IF;
    IF NOT v_opened THEN
        OPEN v_cursor FOR SELECT FROM public.event_secret;
    END IF;
    PERFORM set_config('eventstore.registered', 'public.event'::REGCLASS::OID::TEXT, TRUE);
END
$$;

-- name: register
-- Registers a transaction once, before it draws its first position. The first call of a session makes sure that the
-- sequence was carried over with the events.
-- Why not by transaction ids: a snapshot's upper end is not the next id to be assigned, so that ids cannot tell which
-- of two transactions could still draw a lower position, and stored ids mean nothing after a dump is restored.
CREATE OR REPLACE FUNCTION public.event_register() RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
    v_store CONSTANT TEXT := 'public.event'::REGCLASS::OID;
BEGIN
    IF pg_catalog.current_setting('eventstore.registered', TRUE) IS DISTINCT FROM v_store THEN
        IF pg_catalog.current_setting('eventstore.carried', TRUE) IS DISTINCT FROM v_store THEN
            PERFORM public.event_check_sequence(), pg_catalog.set_config('eventstore.carried', v_store, FALSE);
        END IF;
        PERFORM public.event_registration();
    END IF;
END
$$;

-- name: next_position
-- The position of one event: registered first, drawn then.
CREATE OR REPLACE FUNCTION public.event_next_position() RETURNS BIGINT
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM public.event_register();
    RETURN pg_catalog.nextval('public.event_sequencenum_seq');
END
$$;

-- name: lock
-- Waits for the appends to a stream that are in progress, and lets none begin until the transaction ends; registers it.
-- Every session may take any advisory lock. One that holds this one and was seen twice without a registration is a stranger:
-- the append goes on without the lock, and may meet another append at the unique key. The first wait is longer than
-- PostgreSQL's for a deadlock, so that it finds one; the session's own lock_timeout holds for all waits together.
-- Runs with the owner's rights, who alone may see the registrations.
-- Locks: the stream (an advisory lock until the transaction ends).
CREATE OR REPLACE FUNCTION public.event_lock(p_tenant UUID, p_stream UUID) RETURNS VOID
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_key CONSTANT BIGINT := uuid_hash_extended(p_tenant, uuid_hash_extended(p_stream, 0));
    v_setting CONSTANT TEXT := current_setting('lock_timeout');
    v_left INTERVAL := nullif(v_setting::INTERVAL, INTERVAL '0');
    v_wait INTERVAL;
    v_strangers INT[] := '{}';
    v_before INT[] := '{}';
    v_locked BOOLEAN := pg_try_advisory_xact_lock(v_key);
BEGIN
    WHILE NOT v_locked AND NOT v_strangers && v_before LOOP
        v_before := v_strangers;
        v_wait := CASE
            WHEN v_before = '{}' THEN current_setting('deadlock_timeout')::INTERVAL + INTERVAL '1 s' ELSE INTERVAL '0.1 s'
        END;
        v_wait := least(v_wait, v_left);
        BEGIN
            PERFORM set_config('lock_timeout', ceil(extract(EPOCH FROM v_wait) * 1000)::TEXT, TRUE);
            PERFORM pg_advisory_xact_lock(v_key);
            PERFORM set_config('lock_timeout', v_setting, TRUE);
            v_locked := TRUE;
        EXCEPTION WHEN lock_not_available THEN
            v_left := v_left - v_wait;
            IF v_left <= INTERVAL '0' THEN
                RAISE;
            END IF;
            v_strangers := ARRAY(
                SELECT coalesce(held.pid, 0) FROM pg_locks AS held
                WHERE
                    held.locktype = 'advisory' AND held.granted AND held.objsubid = 1
                    AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                    AND held.classid::BIGINT = (v_key >> 32) & 4294967295 AND held.objid::BIGINT = v_key & 4294967295
                EXCEPT
                SELECT coalesce(writer.Pid, 0) FROM public.event_registrations() AS writer
            );
        END;
    END LOOP;
    PERFORM public.event_register();
END
$$;

-- name: close_positions
-- Only a role that may append registers and draws positions: grants_append.sql.
REVOKE EXECUTE ON FUNCTION
public.event_check_sequence(), public.event_register(), public.event_registration(), public.event_next_position()
FROM PUBLIC;

-- name: feed_function
-- Copies a statement's new events into the feed. Runs with the owner's rights, so that a tenant's own role needs none
-- on the feed. Its search_path is not pinned, which would cost each append 30 us: it names every operator, type and
-- table with its schema, and a transition table goes before any other. On another table it would copy forged events.
-- A position is accepted only where it was drawn after this transaction registered, by the cursor of event_registration.
-- Locks: the new rows.
CREATE OR REPLACE FUNCTION public.event_feed_inserted() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_before CONSTANT pg_catalog.int8 := (
        SELECT pg_catalog.min(pg_catalog.split_part(name, ' ', 4)::pg_catalog.int8)
        FROM pg_catalog.pg_cursors
        WHERE
            statement OPERATOR(pg_catalog.=) 'SELECT FROM public.event_secret'
            AND pg_catalog.starts_with(
                name,
                pg_catalog.concat('registered ', TG_RELID, ' ', pg_catalog.pg_current_xact_id()::pg_catalog.xid, ' ')
            )
    );
    v_last CONSTANT pg_catalog.int8 := pg_catalog.pg_sequence_last_value(
        'public.event_sequencenum_seq'::pg_catalog.regclass
    );
BEGIN
    IF TG_RELID OPERATOR(pg_catalog.<>) 'public.event'::pg_catalog.regclass::pg_catalog.oid THEN
        RAISE EXCEPTION 'event_feed_inserted serves the table of events only, not %', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO public.event_feed (SequenceNum, TenantId, StreamId, Version, Type)
    SELECT
        CASE
            WHEN SequenceNum OPERATOR(pg_catalog.>) v_before AND SequenceNum OPERATOR(pg_catalog.<=) v_last
                THEN SequenceNum
            ELSE public.event_refuse_position(SequenceNum)
        END,
        TenantId, StreamId, Version, Type
    FROM inserted;
    RETURN NULL;
END
$$;

-- name: position_default
-- A plain INSERT gets its position by default. Only where there is none: setting it locks every tenant's partition.
-- Locks: the parent, exclusively, while it is created; no tenant exists yet.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attrdef WHERE adrelid = 'public.event'::REGCLASS AND adnum = 1) THEN
        ALTER TABLE public.event ALTER COLUMN SequenceNum SET DEFAULT public.event_next_position();
    END IF;
END
$$;

-- name: registrations
-- The transactions that have registered and are not over: the session, NULL for a prepared transaction, and the low 32 bits
-- of the position. Every role may take any advisory lock; event_registration made those that count. Runs with the
-- owner's rights, who alone may read the secret. A transaction's own id is older than those of its savepoints.
-- Locks: nothing.
CREATE OR REPLACE FUNCTION public.event_registrations() RETURNS TABLE (Pid INT, Drawn BIGINT)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH locks AS MATERIALIZED (
        SELECT locktype, classid, objid, objsubid, database, transactionid, virtualtransaction, pid, mode
        FROM pg_locks WHERE granted AND locktype IN ('advisory', 'transactionid')
    ),

    owners AS MATERIALIZED (
        SELECT DISTINCT ON (virtualtransaction) virtualtransaction, transactionid
        FROM locks WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock'
        ORDER BY virtualtransaction, age(transactionid) DESC
    )

    SELECT held.pid, held.objid::BIGINT
    FROM locks AS held
    INNER JOIN owners ON held.virtualtransaction = owners.virtualtransaction
    CROSS JOIN public.event_secret AS store
    WHERE
        held.locktype = 'advisory' AND held.objsubid = 2
        AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND held.classid::BIGINT = (
            'x' || encode(
                substr(
                    sha256(
                        store.Secret
                        || concat('lock ', 'public.event'::REGCLASS::OID, ' ', owners.transactionid, ' ', held.objid)::BYTEA
                    ),
                    1, 4
                ),
                'hex'
            )
        )::BIT(32)::BIGINT
$$;

-- name: horizon_function
-- How far a reader may read: every position up to the horizon belongs to a transaction that has ended, and has become
-- visible to any snapshot taken later. Newest is the last position drawn; above the horizon there is then an
-- open transaction. The order of the two looks is what makes it right: a position drawn before the first look
-- belongs to a transaction that registered even earlier, and that the second look sees or that has ended.
-- Not on a standby, which does not see the locks of the primary. Locks: nothing.
CREATE OR REPLACE FUNCTION public.event_horizon(OUT Horizon BIGINT, OUT Newest BIGINT)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF pg_catalog.pg_is_in_recovery() THEN
        RAISE EXCEPTION 'a standby cannot tell which positions are settled; read from the primary'
        USING ERRCODE = 'feature_not_supported';
    END IF;
    SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END INTO Newest
    FROM public.event_sequencenum_seq;
    -- A registration carries the low 32 bits of a position: its distance below Newest, as a signed number of 32 bits,
    -- because a transaction that registered after the first look may be above Newest.
    SELECT least(Newest, min(Newest - ((((Newest - held.Drawn) & 4294967295) # 2147483648) - 2147483648)))
    INTO Horizon
    FROM public.event_registrations() AS held;
END
$$;

-- name: close_horizon
-- Only a role that may read all events asks for the horizon: grants_read.sql.
REVOKE EXECUTE ON FUNCTION public.event_horizon(), public.event_registrations() FROM PUBLIC;
