-- Appends events to one stream in one statement; returns the first and last position and the stream's new version.
-- p_expected is the version the stream must have, or -1 for any; where it has another, ES001 is raised.
-- Whether it has is asked of the unique key itself: the event p_expected is inserted once more, and must be refused,
-- together with those that follow, which must not. Nothing is left out in silence: whatever differs raises. Looking the
-- version up instead means planning over the partitions for each append (measured: a third of its time), because a
-- cached plan would be one over all tenants; it is done for -1 only, with EXECUTE, which caches none.
-- Index: the partition's (TenantId, StreamId, Version). Locks: the counter's row; before the version is looked up,
-- which then nobody can overtake.
CREATE OR REPLACE FUNCTION public.event_append(
    p_tenant UUID, p_stream UUID, p_expected INT, p_types TEXT[], p_metas TEXT[], p_datas TEXT[]
) RETURNS BIGINT[]
LANGUAGE plpgsql AS $$
DECLARE
    v_count CONSTANT INT := pg_catalog.cardinality(p_types);
    v_last CONSTANT BIGINT := public.event_take_positions(v_count);
    v_version INT := p_expected;
    v_inserted INT;
    v_lowest INT;
BEGIN
    IF p_expected = -1 THEN
        EXECUTE 'SELECT Version FROM public.event WHERE TenantId = $1 AND StreamId = $2 ORDER BY Version DESC LIMIT 1'
        INTO v_version USING p_tenant, p_stream;
        v_version := coalesce(v_version, 0);
    END IF;
    WITH inserted AS (
        INSERT INTO public.event (SequenceNum, TenantId, StreamId, Version, Type, Meta, Data)
        SELECT
            CASE WHEN n = 0 THEN 0 ELSE v_last - v_count + n END,
            p_tenant, p_stream, v_version + n, type, meta::JSONB, data::JSONB
        FROM (
            SELECT 0, p_types[1], p_metas[1], p_datas[1] WHERE p_expected > 0
            UNION ALL
            SELECT n, type, meta, data
            FROM unnest(p_types, p_metas, p_datas) WITH ORDINALITY AS given (type, meta, data, n)
        ) AS new (n, type, meta, data)
        ON CONFLICT (TenantId, StreamId, Version) DO NOTHING
        RETURNING Version
    )

    SELECT count(*), min(Version) INTO v_inserted, v_lowest FROM inserted;
    IF v_inserted <> v_count OR v_lowest <> v_version + 1 THEN
        RAISE EXCEPTION 'the stream has another version than expected' USING ERRCODE = 'ES001';
    END IF;
    RETURN ARRAY[v_last - v_count + 1, v_last, v_version + v_count];
END
$$
