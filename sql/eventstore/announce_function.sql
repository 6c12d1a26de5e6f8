-- The ids of announcements, as they are now. It runs after append_function.sql, and may be repeated.

-- name: announcement_ids
-- The ids of the outbox rows that announce the events of an append, in their order: UUIDs of version 8 with bits of
-- SHA-256; p_appended is what event_append returned. With several writers the positions of a settled append may have gaps:
-- then they are read from its events.
-- The store's id and the position are in an id, so that neither another store nor a tenant's second life repeats one. The
-- store's secret and the transaction are, so that no writer knows or is given the ids of another one's announcements.
-- Runs with the owner's rights, who alone may read the secret.
-- Index: the settings, the secret, and the partition's primary key. Locks: nothing.
CREATE OR REPLACE FUNCTION public.event_announcement_ids(
    p_tenant UUID, p_stream UUID, p_appended BIGINT[], p_count INT
) RETURNS UUID[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_secret CONSTANT BYTEA := (SELECT Secret FROM public.event_secret);
    v_append CONSTANT TEXT := concat_ws(
        '/', (SELECT StoreId FROM public.event_store), p_tenant, p_stream, pg_current_xact_id()
    );
    v_positions BIGINT[];
    v_ids UUID[];
    v_hash BYTEA;
BEGIN
    IF p_appended[2] - p_appended[1] = p_count - 1 THEN
        v_positions := ARRAY(SELECT generate_series(p_appended[1], p_appended[2]));
    ELSE
        EXECUTE
            'SELECT array_agg(SequenceNum ORDER BY Version) FROM public.event '
            'WHERE TenantId = $1 AND StreamId = $2 AND SequenceNum BETWEEN $3 AND $4'
        INTO v_positions USING p_tenant, p_stream, p_appended[1], p_appended[2];
    END IF;
    FOR n IN 1..p_count LOOP
        v_hash := sha256(v_secret || concat_ws('/', v_append, p_appended[3] - p_count + n, v_positions[n])::BYTEA);
        v_hash := set_byte(v_hash, 6, get_byte(v_hash, 6) & 15 | 128);
        v_hash := set_byte(v_hash, 8, get_byte(v_hash, 8) & 63 | 128);
        v_ids[n] := encode(substr(v_hash, 1, 16), 'hex')::UUID;
    END LOOP;
    RETURN v_ids;
END
$$;

-- name: close_announcement
-- Only a role that may append calls the function: grants_append.sql.
REVOKE EXECUTE ON FUNCTION public.event_announcement_ids(UUID, UUID, BIGINT[], INT) FROM PUBLIC;
