-- The rights on the functions, after all functions exist. They may be repeated.

-- name: carry_over
-- Lets every role that may insert events execute what an append needs, and every role that may read the feed ask for
-- the horizon: before migration 2 each role could. Locks: nothing that readers or writers wait for.
-- Tags: gapless or settled.
DO $$
DECLARE
    v_grant RECORD;
BEGIN
    FOR v_grant IN
        SELECT
            privileges.privilege_type,
            CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(grantee)) END
            AS role
        FROM pg_catalog.pg_class, pg_catalog.aclexplode(relacl) AS privileges
        WHERE
            (
                (oid = 'public.event'::REGCLASS AND privileges.privilege_type = 'INSERT')
                OR (oid = 'public.event_feed'::REGCLASS AND privileges.privilege_type = 'SELECT')
            )
            AND grantee <> relowner
    LOOP
        IF v_grant.privilege_type = 'SELECT' THEN
            EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION public.event_horizon() TO %s', v_grant.role);
            -- EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION public.event_registrations() TO %s', v_grant.role); --? settled
            EXECUTE pg_catalog.format('GRANT SELECT ON public.event_id, public.event_tombstone, public.event_dropped_tenant TO %s', v_grant.role);
            CONTINUE;
        END IF;
        EXECUTE pg_catalog.format(
            'GRANT EXECUTE ON FUNCTION public.event_append(UUID, UUID, INT, TEXT[], TEXT[], TEXT[]), '
            'public.event_lock(UUID, UUID), '
            'public.event_append_once(UUID[], UUID, UUID, INT, TEXT[], TEXT[], TEXT[]), '
            'public.event_announcement_ids(UUID, UUID, BIGINT[], INT), '
            'public.event_take_positions(INT) TO %s', --? gapless
            -- 'public.event_check_sequence(), public.event_register(), public.event_registration(), ' --? settled
            -- 'public.event_next_position() TO %s', --? settled
            v_grant.role
        );
        EXECUTE pg_catalog.format(
            'GRANT EXECUTE ON PROCEDURE public.event_append_then_notify('
            'BIGINT[], BIGINT, UUID[], UUID, UUID, INT, TEXT[], TEXT[], TEXT[]) TO %s',
            v_grant.role
        );
        EXECUTE pg_catalog.format('GRANT SELECT ON public.event_store, public.event_tombstone TO %s', v_grant.role);
        EXECUTE pg_catalog.format('GRANT SELECT, INSERT ON public.event_id TO %s', v_grant.role);
    END LOOP;
END
$$;
