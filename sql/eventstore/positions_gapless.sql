-- Positions without gaps: the functions, as they are now. They run after the
-- migrations, and may be repeated.

-- name: take_positions
-- Assigns that many positions and returns the last of them. Runs with the owner's rights: a role that may insert an
-- event needs none on the counter.
-- Each call leaves a version of the counter's row, which PostgreSQL cannot remove before the transaction ends. To search
-- for the newest version at each call would take time that grows with the square of the events. So the transaction
-- remembers its place, in a setting of this store that a rolled back savepoint sets back as well. A session may change
-- the setting: another place has no visible version, or not this transaction's, and then the row is searched for.
-- A snapshot that stays open anywhere keeps the versions of all transactions since. The search meets the newest 256 at most:
-- the key of the row is its position over 256, and it begins at the highest key. It waits for a transaction that moves the
-- key, and then finds the row by a key that is not lower.
-- Beside the place, the setting counts the single positions for which no row is inserted yet: event_feed_inserted looks.
-- The first call of a session makes sure that the counter was carried over with the events.
-- Index: the primary key, once in a transaction, whatever the planner expects of a table with one row.
-- Locks: the counter's row until the transaction ends, so that others wait for its outcome.
CREATE OR REPLACE FUNCTION public.event_take_positions(p_count INT) RETURNS BIGINT
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    v_name CONSTANT TEXT := 'eventstore.counter_' || 'public.event'::REGCLASS::OID::TEXT;
    v_setting CONSTANT TEXT := current_setting(v_name, TRUE);
    v_place TID;
    v_unused BIGINT := 0;
    v_last BIGINT;
    v_newest BIGINT;
BEGIN
    IF p_count IS NULL OR p_count < 1 THEN
        RAISE EXCEPTION 'event_take_positions: % is not a number of positions; take 1 or more', p_count
        USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF v_setting <> '' THEN
        v_place := split_part(v_setting, ' ', 1)::TID;
        v_unused := coalesce(nullif(split_part(v_setting, ' ', 2), ''), '0')::BIGINT;
        UPDATE public.event_position SET Last = Last + p_count, Part = (Last + p_count) >> 8
        WHERE ctid = v_place AND TakenBy = pg_current_xact_id()
        RETURNING Last, ctid INTO v_last, v_place;
    END IF;
    IF v_last IS NULL THEN
        UPDATE public.event_position
        SET
            Last = Last + p_count,
            Part = (Last + p_count) >> 8,
            Since = CASE WHEN TakenBy = pg_current_xact_id() THEN Since ELSE Last END,
            TakenBy = pg_current_xact_id()
        WHERE Part >= (SELECT Part FROM public.event_position ORDER BY Part DESC LIMIT 1)
        RETURNING Last, ctid INTO v_last, v_place;
    END IF;
    IF p_count = 1 THEN
        v_unused := v_unused + 1;
    END IF;
    PERFORM set_config(v_name, v_place::TEXT || ' ' || v_unused::TEXT, TRUE);
    IF current_setting('eventstore.carried', TRUE) IS DISTINCT FROM v_name THEN
        SELECT SequenceNum INTO v_newest FROM public.event_feed ORDER BY SequenceNum DESC LIMIT 1;
        IF v_newest > v_last - p_count THEN
            RAISE EXCEPTION 'event_position stands at %, below position % of the events: it was not carried over with '
                'them. Run as the owner: UPDATE % SET Last = %, Part = % >> 8',
                v_last - p_count, v_newest, 'public.event_position'::REGCLASS, v_newest, v_newest
            USING ERRCODE = 'ES005';
        END IF;
        PERFORM set_config('eventstore.carried', v_name, FALSE);
    END IF;
    RETURN v_last;
END
$$;

-- name: lock
-- Waits for the appends that are in progress, and lets none begin until the transaction ends: the first lock that every
-- append takes. Runs with the owner's rights: a role that may append has none on the counter. Locks: the counter's row.
CREATE OR REPLACE FUNCTION public.event_lock(p_tenant UUID, p_stream UUID) RETURNS VOID
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    PERFORM FROM public.event_position ORDER BY Part DESC LIMIT 1 FOR NO KEY UPDATE;
END
$$;

-- name: close_positions
-- Only a role that may append takes positions: grants_append.sql.
REVOKE EXECUTE ON FUNCTION public.event_take_positions(INT) FROM PUBLIC;

-- name: feed_function
-- Copies a statement's new events into the feed. Runs with the owner's rights, so that a tenant's own role needs none
-- on the feed. Its search_path is not pinned, which would cost each append 30 us: it names every operator, type and
-- table with its schema, and a transition table goes before any other. On another table it would copy forged events.
-- A position is accepted only where this transaction took it from the counter, whose newest version is where
-- event_take_positions left it; from any other place it is refused. The planner would read all versions of the counter's one
-- row in sequence, which that setting keeps it from. Rows that ON CONFLICT DO NOTHING has left out have taken positions:
-- they are given back where they are the newest, and a gap before or between other rows is refused (ES006). Not within a
-- function: positions without a row may be those of the statement that calls it, which is not at its end.
-- Index: the counter's primary key, where the transaction took none. Locks: the new rows.
CREATE OR REPLACE FUNCTION public.event_feed_inserted() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
    v_setting CONSTANT pg_catalog.text := pg_catalog.current_setting(
        pg_catalog.concat('eventstore.counter_', TG_RELID), TRUE
    );
    v_place pg_catalog.tid := CASE
        WHEN v_setting OPERATOR(pg_catalog.<>) '' THEN pg_catalog.split_part(v_setting, ' ', 1)::pg_catalog.tid
    END;
    v_unused pg_catalog.int8 := CASE
        WHEN pg_catalog.strpos(v_setting, ' ') OPERATOR(pg_catalog.>) 0
            THEN pg_catalog.split_part(v_setting, ' ', 2)::pg_catalog.int8
        ELSE 0
    END;
    v_count pg_catalog.int8;
    v_stack pg_catalog.text;
BEGIN
    IF TG_RELID OPERATOR(pg_catalog.<>) 'public.event'::pg_catalog.regclass::pg_catalog.oid THEN
        RAISE EXCEPTION 'event_feed_inserted serves the table of events only, not %', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF v_place IS NULL THEN
        SELECT ctid INTO v_place FROM public.event_position ORDER BY Part DESC LIMIT 1;
    END IF;
    INSERT INTO public.event_feed (SequenceNum, TenantId, StreamId, Version, Type)
    SELECT
        CASE
            WHEN
                new_event.SequenceNum OPERATOR(pg_catalog.>) counter.Since
                AND new_event.SequenceNum OPERATOR(pg_catalog.<=) counter.Last
                AND counter.TakenBy OPERATOR(pg_catalog.=) pg_catalog.pg_current_xact_id()
                THEN new_event.SequenceNum
            ELSE public.event_refuse_position(new_event.SequenceNum)
        END,
        new_event.TenantId, new_event.StreamId, new_event.Version, new_event.Type
    FROM inserted AS new_event LEFT JOIN public.event_position AS counter ON counter.ctid OPERATOR(pg_catalog.=) v_place;
    IF v_unused OPERATOR(pg_catalog.>) 0 THEN
        GET DIAGNOSTICS v_count = ROW_COUNT;
        v_unused := v_unused OPERATOR(pg_catalog.-) v_count;
        IF v_unused OPERATOR(pg_catalog.>) 0 THEN
            GET DIAGNOSTICS v_stack = PG_CONTEXT;
        END IF;
        IF pg_catalog.strpos(v_stack, E'\n') OPERATOR(pg_catalog.=) 0 THEN
            UPDATE public.event_position AS counter
            SET
                Last = counter.Last OPERATOR(pg_catalog.-) v_unused,
                Part = (counter.Last OPERATOR(pg_catalog.-) v_unused) OPERATOR(pg_catalog.>>) 8
            WHERE
                counter.ctid OPERATOR(pg_catalog.=) v_place
                AND counter.TakenBy OPERATOR(pg_catalog.=) pg_catalog.pg_current_xact_id()
                AND NOT EXISTS (
                    SELECT FROM public.event_feed AS listed
                    WHERE listed.SequenceNum OPERATOR(pg_catalog.>) (counter.Last OPERATOR(pg_catalog.-) v_unused)
                )
            RETURNING counter.ctid INTO v_place;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'a row was left out between others, and its position would be a gap'
                USING
                    ERRCODE = 'ES006',
                    HINT = 'Insert such rows by a statement each, or append events with ids: event_append_once.';
            END IF;
        END IF;
        PERFORM pg_catalog.set_config(
            pg_catalog.concat('eventstore.counter_', TG_RELID), pg_catalog.concat(v_place, ' 0'), TRUE
        );
    END IF;
    RETURN NULL;
END
$$;

-- name: position_default
-- A plain INSERT gets its position by default. Only where there is none: setting it locks every tenant's partition.
-- Locks: the parent, exclusively, while it is created; no tenant exists yet.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attrdef WHERE adrelid = 'public.event'::REGCLASS AND adnum = 1) THEN
        ALTER TABLE public.event ALTER COLUMN SequenceNum SET DEFAULT public.event_take_positions(1);
    END IF;
END
$$;

-- name: horizon_function
-- How far a reader may read: every position up to the horizon has committed. Newest is the same here: a reader never
-- waits. Index: the primary key. Locks: nothing.
CREATE OR REPLACE FUNCTION public.event_horizon(OUT Horizon BIGINT, OUT Newest BIGINT)
LANGUAGE sql STABLE SET enable_seqscan = off AS $$
    SELECT Last, Last FROM public.event_position ORDER BY Part DESC LIMIT 1
$$;

-- name: close_horizon
-- Only a role that may read all events asks for the horizon: grants_read.sql.
REVOKE EXECUTE ON FUNCTION public.event_horizon() FROM PUBLIC;
