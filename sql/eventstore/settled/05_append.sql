-- Appends events to one stream in one statement; returns the first and last position and the stream's new version.
-- p_expected is the version the stream must have, or -1 for any. A stream with another version raises ES001 with
-- the actual one as the detail; losing a race raises the unique violation of the tenant's partition.
-- The version is looked up with EXECUTE because a cached generic plan would be one over all tenants' partitions.
-- Index: the partition's (TenantId, StreamId, Version). Locks: the stream (an advisory lock until the transaction
-- ends), so that appends of any version queue instead of failing.
CREATE OR REPLACE FUNCTION public.event_append(
    p_tenant UUID, p_stream UUID, p_expected INT, p_types TEXT[], p_metas TEXT[], p_datas TEXT[]
) RETURNS BIGINT[]
LANGUAGE plpgsql AS $$
DECLARE
    v_version INT;
    v_appended BIGINT[];
BEGIN
    PERFORM pg_catalog.pg_advisory_xact_lock(
        pg_catalog.uuid_hash_extended(p_tenant, pg_catalog.uuid_hash_extended(p_stream, 0))
    );
    EXECUTE 'SELECT Version FROM public.event WHERE TenantId = $1 AND StreamId = $2 ORDER BY Version DESC LIMIT 1'
    INTO v_version USING p_tenant, p_stream;
    v_version := coalesce(v_version, 0);
    IF p_expected <> -1 AND v_version <> p_expected THEN
        RAISE EXCEPTION 'stream has another version' USING ERRCODE = 'ES001', DETAIL = v_version;
    END IF;
    PERFORM public.event_register();
    WITH inserted AS (
        INSERT INTO public.event (SequenceNum, TenantId, StreamId, Version, Type, Meta, Data)
        SELECT
            pg_catalog.nextval('public.event_sequencenum_seq'),
            p_tenant, p_stream, v_version + n, type, meta::JSONB, data::JSONB
        FROM unnest(p_types, p_metas, p_datas) WITH ORDINALITY AS new (type, meta, data, n)
        RETURNING SequenceNum
    )

    SELECT ARRAY[min(SequenceNum), max(SequenceNum), v_version + count(*)] INTO v_appended FROM inserted;
    RETURN v_appended;
END
$$
