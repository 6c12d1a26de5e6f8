-- The function that appends, as it is now. It runs after positions_*.sql, and may be repeated.

-- name: append_function
-- Appends events to one stream in one statement; returns the first and last position and the stream's new version.
-- p_expected is the version the stream must have, or -1 for any; where it has another, ES001 is raised, or the unique
-- key's own error where none or any was expected: then only the new events are checked against the key. Otherwise
-- the event p_expected is inserted once more, and must be refused, together with the new events, which must not.
-- Its position is -1: where it is not refused by the key, the feed's trigger refuses it (ES002).
-- Nothing is skipped silently: any difference raises. ON CONFLICT names no key: finding the partition's one would
-- take a tenth of the time. So a position that is taken is refused as well; the two cases are distinguished after a
-- refusal. The first event of a deleted stream follows the last deleted one.
-- Looking the version up instead means planning over the partitions for each append (measured: a third of its time),
-- because a cached plan would be one over all tenants; it is done for -1 only, with EXECUTE, which caches none.
-- Tags: gapless or settled, how positions are handed out.
-- Index: the partition's (TenantId, StreamId, Version). Locks: gapless: the counter's row; before the version is looked
-- up, which then no other append can overtake. settled: the stream (the advisory lock of event_lock), so that appends to
-- any version queue instead of failing.
CREATE OR REPLACE FUNCTION public.event_append(
    p_tenant UUID, p_stream UUID, p_expected INT, p_types TEXT[], p_metas TEXT[], p_datas TEXT[]
) RETURNS BIGINT[]
LANGUAGE plpgsql AS $$
DECLARE
    v_count CONSTANT INT := pg_catalog.cardinality(p_types);
    v_last CONSTANT BIGINT := public.event_take_positions(v_count); --? gapless
    v_version INT := p_expected;
    v_inserted INT;
    v_lowest INT;
    -- v_first BIGINT; --? settled
    -- v_last BIGINT; --? settled
BEGIN
    -- IF NOT pg_catalog.pg_try_advisory_xact_lock( --? settled
        -- pg_catalog.uuid_hash_extended(p_tenant, pg_catalog.uuid_hash_extended(p_stream, 0)) --? settled
    -- ) THEN --? settled
        -- PERFORM public.event_lock(p_tenant, p_stream); --? settled
    -- END IF; --? settled
    -- PERFORM public.event_register(); --? settled
    IF p_expected = -1 THEN
        EXECUTE
            'SELECT greatest('
            '(SELECT Version FROM public.event WHERE TenantId = $1 AND StreamId = $2 ORDER BY Version DESC LIMIT 1), '
            '(SELECT Version FROM public.event_tombstone WHERE TenantId = $1 AND StreamId = $2), 0)'
        INTO v_version USING p_tenant, p_stream;
    ELSIF p_expected = 0 THEN
        SELECT Version INTO v_version FROM public.event_tombstone WHERE TenantId = p_tenant AND StreamId = p_stream;
        v_version := coalesce(v_version, 0);
    END IF;
    IF p_expected <= 0 THEN
        -- v_first := pg_catalog.nextval('public.event_sequencenum_seq'); --? settled
        INSERT INTO public.event (SequenceNum, TenantId, StreamId, Version, Type, Meta, Data)
        SELECT v_last - v_count + n, p_tenant, p_stream, v_version + n, type, meta::JSONB, data::JSONB --? gapless
        -- SELECT --? settled
            -- CASE WHEN n = 1 THEN v_first ELSE pg_catalog.nextval('public.event_sequencenum_seq') END, --? settled
            -- p_tenant, p_stream, v_version + n, type, meta::JSONB, data::JSONB --? settled
        FROM unnest(p_types, p_metas, p_datas) WITH ORDINALITY AS new_events (type, meta, data, n);
        RETURN ARRAY[v_last - v_count + 1, v_last, v_version + v_count]; --? gapless
        -- RETURN ARRAY[v_first, pg_catalog.currval('public.event_sequencenum_seq'), v_version + v_count]; --? settled
    END IF;
    WITH inserted AS (
        INSERT INTO public.event (SequenceNum, TenantId, StreamId, Version, Type, Meta, Data)
        SELECT
            CASE WHEN n = 0 THEN -1 ELSE v_last - v_count + n END, --? gapless
            -- CASE WHEN n = 0 THEN -1 ELSE pg_catalog.nextval('public.event_sequencenum_seq') END, --? settled
            p_tenant, p_stream, v_version + n, type, meta::JSONB, data::JSONB
        FROM (
            SELECT 0, p_types[1], p_metas[1], p_datas[1]
            UNION ALL
            SELECT n, type, meta, data
            FROM unnest(p_types, p_metas, p_datas) WITH ORDINALITY AS new_events (type, meta, data, n)
        ) AS new (n, type, meta, data)
        ON CONFLICT DO NOTHING
        RETURNING Version --? gapless
        -- RETURNING Version, SequenceNum --? settled
    )

    SELECT count(*), min(Version) INTO v_inserted, v_lowest FROM inserted; --? gapless
    -- SELECT count(*), min(Version), min(SequenceNum), max(SequenceNum) --? settled
    -- INTO v_inserted, v_lowest, v_first, v_last FROM inserted; --? settled
    IF v_inserted <> v_count OR v_lowest <> v_version + 1 THEN
        EXECUTE 'SELECT count(*) FROM public.event WHERE TenantId = $1 AND StreamId = $2 AND Version BETWEEN $3 AND $4'
        INTO v_inserted USING p_tenant, p_stream, v_version + 1, v_version + v_count;
        IF v_inserted < v_count THEN
            RAISE EXCEPTION 'a position up to % is taken: event_position is behind the events', v_last --? gapless
            -- RAISE EXCEPTION 'a position is taken: event_sequencenum_seq is behind the events' --? settled
            USING ERRCODE = 'unique_violation';
        END IF;
        RAISE EXCEPTION 'the stream has another version than expected' USING ERRCODE = 'ES001';
    END IF;
    RETURN ARRAY[v_last - v_count + 1, v_last, v_version + v_count]; --? gapless
    -- RETURN ARRAY[v_first, v_last, v_version + v_count]; --? settled
END
$$;

-- name: close_append
-- Only a role that may append calls the function: grants_append.sql.
REVOKE EXECUTE ON FUNCTION public.event_append(UUID, UUID, INT, TEXT[], TEXT[], TEXT[]) FROM PUBLIC;
