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

-- name: register
-- Tells readers, once in a transaction and before it draws its first position, that every position this transaction
-- will draw is above the last one drawn so far. It uses a shared advisory lock, which no session waits for and
-- which is released after the transaction has become visible: its first number is the store, its second the low 32
-- bits of that position. The settings remember that it was done and where, and are undone with the lock when a savepoint is.
-- The first call of a session makes sure that the sequence was carried over with the events.
-- The transaction takes its id first: event_horizon tells a writer's lock by it from a stranger's.
-- Why not by transaction ids: a snapshot's upper end is not the next id to be assigned, so that ids cannot tell which
-- of two transactions could still draw a lower position, and stored ids mean nothing after a dump is restored.
CREATE OR REPLACE FUNCTION public.event_register() RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
    v_store CONSTANT INT := pg_catalog.hashoid('public.event'::REGCLASS::OID);
    v_drawn BIGINT;
BEGIN
    IF pg_catalog.current_setting('eventstore.registered', TRUE) IS DISTINCT FROM v_store::TEXT THEN
        IF pg_catalog.current_setting('eventstore.carried', TRUE) IS DISTINCT FROM v_store::TEXT THEN
            PERFORM public.event_check_sequence(), pg_catalog.set_config('eventstore.carried', v_store::TEXT, FALSE);
        END IF;
        v_drawn := pg_catalog.pg_sequence_last_value('public.event_sequencenum_seq'::REGCLASS);
        IF v_drawn IS NULL THEN -- none drawn yet
            SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END INTO v_drawn
            FROM public.event_sequencenum_seq;
        END IF;
        PERFORM pg_catalog.pg_current_xact_id();
        PERFORM
            pg_catalog.pg_advisory_xact_lock_shared(v_store, v_drawn::BIT(32)::INT),
            pg_catalog.set_config('eventstore.registered', v_store::TEXT, TRUE),
            pg_catalog.set_config('eventstore.drawn', v_drawn::TEXT, TRUE);
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
public.event_check_sequence(), public.event_register(), public.event_next_position()
FROM PUBLIC;

-- name: feed_function
-- Copies a statement's new events into the feed. Runs with the owner's rights, so that a tenant's own role needs none
-- on the feed. Its search_path is not pinned, which would cost each append 30 us: it names every operator, type and
-- table with its schema, and a transition table goes before any other. On another table it would copy forged events.
-- A position is accepted only where it was drawn after this transaction registered. Locks: the new rows.
CREATE OR REPLACE FUNCTION public.event_feed_inserted() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_setting CONSTANT pg_catalog.text := pg_catalog.current_setting('eventstore.drawn', TRUE);
    v_before CONSTANT pg_catalog.int8 := CASE WHEN v_setting OPERATOR(pg_catalog.<>) '' THEN v_setting::pg_catalog.int8 END;
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

-- name: horizon_function
-- How far a reader may read: every position up to the horizon belongs to a transaction that has ended, and has become
-- visible to any snapshot taken later. Newest is the last position drawn; above the horizon there is then an
-- open transaction. The order of the two looks is what makes it right: a position drawn before the first look
-- belongs to a transaction that registered even earlier, and that the second look sees or that has ended.
-- Every role may take any advisory lock, and a managed database's owner cannot revoke that. So a lock does not count that
-- no writer can hold: of a transaction without an id, of a session whose user may not insert into the table and is a member
-- of no role that may. A stranger with a transaction id still holds readers up; read:holders names the session.
-- Not on a standby, which does not see the locks of the primary. Locks: nothing.
CREATE OR REPLACE FUNCTION public.event_horizon(OUT Horizon BIGINT, OUT Newest BIGINT)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_store CONSTANT INT := pg_catalog.hashoid('public.event'::REGCLASS::OID);
BEGIN
    IF pg_catalog.pg_is_in_recovery() THEN
        RAISE EXCEPTION 'a standby cannot tell which positions are settled; read from the primary'
        USING ERRCODE = 'feature_not_supported';
    END IF;
    SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END INTO Newest
    FROM public.event_sequencenum_seq;
    -- A registration carries the low 32 bits of a position: its distance below Newest, as a signed number of 32 bits,
    -- because a transaction that registered after the first look may be above Newest.
    WITH locks AS MATERIALIZED (
        SELECT locktype, classid, objid, objsubid, database, virtualtransaction, pid
        FROM pg_catalog.pg_locks WHERE granted AND locktype IN ('advisory', 'transactionid')
    )

    SELECT least(Newest, min(Newest - ((((Newest - held.objid::BIGINT) & 4294967295) # 2147483648) - 2147483648)))
    INTO Horizon
    FROM locks AS held
    WHERE
        held.locktype = 'advisory' AND held.objsubid = 2
        AND held.classid = ((v_store::BIGINT + 4294967296) & 4294967295)::TEXT::OID
        AND held.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
        AND (
            EXISTS (
                SELECT FROM locks AS owned
                WHERE owned.locktype = 'transactionid' AND owned.virtualtransaction = held.virtualtransaction
            )
            OR NOT EXISTS (
                SELECT FROM pg_catalog.pg_stat_activity AS session
                WHERE
                    session.pid = held.pid AND session.usesysid IS NOT NULL
                    AND NOT EXISTS (
                        SELECT FROM pg_catalog.pg_roles AS writer
                        WHERE
                            pg_catalog.pg_has_role(session.usesysid, writer.oid, 'MEMBER')
                            AND pg_catalog.has_any_column_privilege(writer.oid, 'public.event', 'INSERT')
                    )
            )
        );
END
$$;

-- name: close_horizon
-- Only a role that may read all events asks for the horizon: grants_read.sql.
REVOKE EXECUTE ON FUNCTION public.event_horizon() FROM PUBLIC;
