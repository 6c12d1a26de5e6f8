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
-- The setting remembers where it was done, and is undone with the lock when a savepoint is. A session may change it: so
-- event_feed_inserted believes it with the proof alone, which is of this transaction.
-- The transaction takes its id first. Runs with the owner's rights, who alone may read the secret.
CREATE OR REPLACE FUNCTION public.event_registration() RETURNS VOID
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_secret CONSTANT BYTEA := (SELECT Secret FROM public.event_secret);
    v_transaction CONSTANT TEXT := concat('public.event'::REGCLASS::OID, ' ', pg_current_xact_id()::XID, ' ');
    v_drawn BIGINT;
    v_lock BYTEA;
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
    PERFORM set_config(
        'eventstore.registered',
        concat(
            'public.event'::REGCLASS::OID, ' ', v_drawn, ' ',
            encode(sha256(v_secret || concat('drawn ', v_transaction, v_drawn)::BYTEA), 'hex')
        ),
        TRUE
    );
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
    IF pg_catalog.split_part(pg_catalog.current_setting('eventstore.registered', TRUE), ' ', 1) IS DISTINCT FROM v_store THEN
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

-- name: close_positions
-- Only a role that may append registers and draws positions: grants_append.sql.
REVOKE EXECUTE ON FUNCTION
public.event_check_sequence(), public.event_register(), public.event_registration(), public.event_next_position()
FROM PUBLIC;

-- name: feed_function
-- Copies a statement's new events into the feed. Runs with the owner's rights, so that a tenant's own role needs none
-- on the feed. Its search_path is not pinned, which would cost each append 30 us: it names every operator, type and
-- table with its schema, and a transition table goes before any other. On another table it would copy forged events.
-- A position is accepted only where it was drawn after this transaction registered, by the proof of event_registration.
-- Index: the secret's primary key. Locks: the new rows.
CREATE OR REPLACE FUNCTION public.event_feed_inserted() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_setting CONSTANT pg_catalog.text := pg_catalog.current_setting('eventstore.registered', TRUE);
    v_drawn CONSTANT pg_catalog.text := pg_catalog.split_part(v_setting, ' ', 2);
    v_proof CONSTANT pg_catalog.text := pg_catalog.encode(
        pg_catalog.sha256(
            (SELECT Secret FROM public.event_secret) OPERATOR(pg_catalog.||) pg_catalog.concat(
                'drawn ', TG_RELID, ' ', pg_catalog.pg_current_xact_id()::pg_catalog.xid, ' ', v_drawn
            )::pg_catalog.bytea
        ),
        'hex'
    );
    v_before CONSTANT pg_catalog.int8 := CASE
        WHEN pg_catalog.split_part(v_setting, ' ', 3) OPERATOR(pg_catalog.=) v_proof THEN v_drawn::pg_catalog.int8
    END;
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
