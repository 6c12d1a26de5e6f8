-- The function that appends events with ids, as it is now. It runs after append_function.sql, and may be repeated.

-- name: append_once
-- Appends as event_append does, unless the events with these ids are in the stream already: then nothing is written,
-- whatever version is expected, and the result has a fourth number: 2 where their metadata was another one, which a repetition
-- may have (a new trace), else 1. ES003 is raised when an event of one of these ids has another type or other data, and
-- when only some of the ids are in the stream.
-- Index: the primary key of the ids; the partition's (TenantId, StreamId, Version). Locks: event_lock, and as
-- event_append; the new ids.
CREATE OR REPLACE FUNCTION public.event_append_once(
    p_ids UUID[], p_tenant UUID, p_stream UUID, p_expected INT, p_types TEXT[], p_metas TEXT[], p_datas TEXT[]
) RETURNS BIGINT[]
LANGUAGE plpgsql AS $$
DECLARE
    v_count CONSTANT INT := pg_catalog.cardinality(p_ids);
    v_numbers BIGINT[];
    v_versions INT[];
    v_same INT;
BEGIN
    PERFORM public.event_lock(p_tenant, p_stream);
    SELECT array_agg(known.Version ORDER BY new.n) INTO v_versions
    FROM unnest(p_ids) WITH ORDINALITY AS new (id, n)
    LEFT JOIN public.event_id AS known
        ON known.TenantId = p_tenant AND known.StreamId = p_stream AND known.EventId = new.id;
    IF pg_catalog.num_nonnulls(VARIADIC v_versions) = 0 THEN
        v_numbers := public.event_append(p_tenant, p_stream, p_expected, p_types, p_metas, p_datas);
        INSERT INTO public.event_id (TenantId, StreamId, EventId, Version)
        SELECT p_tenant, p_stream, id, v_numbers[3] - v_count + n
        FROM unnest(p_ids) WITH ORDINALITY AS new (id, n);
        RETURN v_numbers;
    END IF;
    IF pg_catalog.num_nulls(VARIADIC v_versions) > 0 THEN
        RAISE EXCEPTION 'event % is in the stream, but event % of the same append is not',
            (SELECT id FROM unnest(p_ids, v_versions) AS new (id, version) WHERE version IS NOT NULL LIMIT 1),
            (SELECT id FROM unnest(p_ids, v_versions) AS new (id, version) WHERE version IS NULL LIMIT 1)
        USING ERRCODE = 'ES003';
    END IF;
    EXECUTE
        'SELECT ARRAY[min(stored.SequenceNum), max(stored.SequenceNum), max(stored.Version), '
        'CASE WHEN bool_and(stored.Meta = new.meta::JSONB) THEN 1 ELSE 2 END], count(*) '
        'FROM unnest($3, $4, $5, $6) AS new (version, type, meta, data) JOIN public.event AS stored '
        'ON stored.TenantId = $1 AND stored.StreamId = $2 AND stored.Version = new.version AND stored.Type = new.type '
        'AND stored.Data IS NOT DISTINCT FROM new.data::JSONB'
    INTO v_numbers, v_same USING p_tenant, p_stream, v_versions, p_types, p_metas, p_datas;
    IF v_same < v_count THEN
        RAISE EXCEPTION 'an event of the same id has other content in the stream (ids %, versions %)', p_ids, v_versions
        USING ERRCODE = 'ES003';
    END IF;
    RETURN v_numbers;
END
$$;

-- name: close_append_once
-- Only a role that may append calls the functions: grants_append.sql.
REVOKE EXECUTE ON FUNCTION
public.event_lock(UUID, UUID),
public.event_append_once(UUID[], UUID, UUID, INT, TEXT[], TEXT[], TEXT[])
FROM PUBLIC;
