-- Appends events to one stream in one statement; returns the first and last position and the stream's new version.
-- p_expected is the version the stream must have, or -1 for any. A stream with another version raises ES001 with
-- the actual one as the detail; losing a race raises the unique violation of the tenant's partition.
-- The version is looked up with EXECUTE because a cached generic plan would be one over all tenants' partitions.
-- Index: the partition's (TenantId, StreamId, Version). Locks: the counter's row, as late as can be; where any
-- version will do, before the lookup, which then cannot be overtaken.
CREATE OR REPLACE FUNCTION public.event_append(
    p_tenant UUID, p_stream UUID, p_expected INT, p_types TEXT[], p_metas TEXT[], p_datas TEXT[]
) RETURNS BIGINT[]
LANGUAGE plpgsql AS $$
DECLARE
    v_count CONSTANT INT := pg_catalog.cardinality(p_types);
    v_last BIGINT;
    v_version INT;
BEGIN
    IF p_expected = -1 THEN
        v_last := public.event_take_positions(v_count);
    END IF;
    EXECUTE 'SELECT Version FROM public.event WHERE TenantId = $1 AND StreamId = $2 ORDER BY Version DESC LIMIT 1'
    INTO v_version USING p_tenant, p_stream;
    v_version := coalesce(v_version, 0);
    IF p_expected <> -1 THEN
        IF v_version <> p_expected THEN
            RAISE EXCEPTION 'stream has another version' USING ERRCODE = 'ES001', DETAIL = v_version;
        END IF;
        v_last := public.event_take_positions(v_count);
    END IF;
    INSERT INTO public.event (SequenceNum, TenantId, StreamId, Version, Type, Meta, Data)
    SELECT v_last - v_count + n, p_tenant, p_stream, v_version + n, type, meta::JSONB, data::JSONB
    FROM unnest(p_types, p_metas, p_datas) WITH ORDINALITY AS new (type, meta, data, n);
    RETURN ARRAY[v_last - v_count + 1, v_last, v_version + v_count];
END
$$
