-- The procedure that appends and notifies afterwards, as it is now. It runs after append_once_function.sql, and may be
-- repeated.

-- name: append_procedure
-- Appends as event_append does, or with ids as event_append_once; commits; and only then sends the notifications that
-- NotifyEvent has kept for it. Sent in the append's own transaction, they would lock the commits of the whole database while
-- this one is written to disk; a transaction that only notifies writes nothing that is waited for.
-- Where no notification was kept, the caller's statement commits. Else an error may come after the commit, and
-- eventstore.appended, a setting of the session, tells the caller: it has the token of the last append that was
-- committed here, and what it returned.
-- What it uses and locks: event_append, event_append_once.
CREATE OR REPLACE PROCEDURE public.event_append_then_notify(
    INOUT p_appended BIGINT[], p_token BIGINT, p_ids UUID[], p_tenant UUID, p_stream UUID, p_expected INT,
    p_types TEXT[], p_metas TEXT[], p_datas TEXT[]
)
LANGUAGE plpgsql AS $$
DECLARE
    v_kept TEXT := pg_catalog.set_config('eventstore.kept', '{}', TRUE);
    v_payloads TEXT[];
BEGIN
    IF p_ids IS NULL THEN
        p_appended := public.event_append(p_tenant, p_stream, p_expected, p_types, p_metas, p_datas);
    ELSE
        p_appended := public.event_append_once(p_ids, p_tenant, p_stream, p_expected, p_types, p_metas, p_datas);
    END IF;
    v_kept := pg_catalog.current_setting('eventstore.kept');
    IF v_kept <> '{}' THEN
        v_payloads := v_kept;
        v_kept := pg_catalog.set_config('eventstore.appended', (p_token || p_appended)::TEXT, FALSE);
        COMMIT;
        PERFORM pg_catalog.pg_notify('eventrecorded', payload) FROM unnest(v_payloads) AS payload;
    END IF;
END
$$;

-- name: close_append_procedure
-- Only a role that may append calls the procedure: grants_append.sql.
REVOKE EXECUTE ON PROCEDURE
public.event_append_then_notify(BIGINT[], BIGINT, UUID[], UUID, UUID, INT, TEXT[], TEXT[], TEXT[])
FROM PUBLIC;
