-- The ids of announcements, as they are now. It runs after append_function.sql, and may be repeated.

-- name: announcement_id
-- The id of the outbox row that announces one stored event: a UUID of version 8 with bits of SHA-256.
-- The store's id and the position are in it, so that neither another store nor a tenant's second life repeats one.
CREATE OR REPLACE FUNCTION public.event_announcement_id(
    p_store UUID, p_tenant UUID, p_stream UUID, p_version BIGINT, p_position BIGINT
) RETURNS UUID
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_hash BYTEA := pg_catalog.sha256(
        (p_store || '/' || p_tenant || '/' || p_stream || '/' || p_version || '/' || p_position)::BYTEA
    );
BEGIN
    v_hash := pg_catalog.set_byte(v_hash, 6, pg_catalog.get_byte(v_hash, 6) & 15 | 128);
    v_hash := pg_catalog.set_byte(v_hash, 8, pg_catalog.get_byte(v_hash, 8) & 63 | 128);
    RETURN pg_catalog.encode(pg_catalog.substr(v_hash, 1, 16), 'hex')::UUID;
END
$$;

-- name: announcement_ids
-- The ids for the events of an append, in their order; p_appended is what event_append returned. With several writers
-- the positions of a settled append may have gaps: then they are read from its events.
-- Index: the settings, and the partition's primary key. Locks: nothing.
CREATE OR REPLACE FUNCTION public.event_announcement_ids(
    p_tenant UUID, p_stream UUID, p_appended BIGINT[], p_count INT
) RETURNS UUID[]
LANGUAGE plpgsql AS $$
DECLARE
    v_store CONSTANT UUID := (SELECT StoreId FROM public.event_store);
    v_positions BIGINT[];
BEGIN
    IF p_appended[2] - p_appended[1] = p_count - 1 THEN
        v_positions := ARRAY(SELECT pg_catalog.generate_series(p_appended[1], p_appended[2]));
    ELSE
        EXECUTE
            'SELECT array_agg(SequenceNum ORDER BY Version) FROM public.event '
            'WHERE TenantId = $1 AND StreamId = $2 AND SequenceNum BETWEEN $3 AND $4'
        INTO v_positions USING p_tenant, p_stream, p_appended[1], p_appended[2];
    END IF;
    RETURN ARRAY(
        SELECT public.event_announcement_id(v_store, p_tenant, p_stream, p_appended[3] - p_count + n, position)
        FROM pg_catalog.unnest(v_positions) WITH ORDINALITY AS positions (position, n)
    );
END
$$;

-- name: close_announcement
-- Only a role that may append calls the functions: grants_append.sql.
REVOKE EXECUTE ON FUNCTION
public.event_announcement_id(UUID, UUID, UUID, BIGINT, BIGINT),
public.event_announcement_ids(UUID, UUID, BIGINT[], INT)
FROM PUBLIC;
