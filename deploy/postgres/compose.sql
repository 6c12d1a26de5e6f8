-- The users of deploy/compose.yaml, each with the role of its job. Passwords for one machine, not for production.
DO $$
DECLARE
    kind TEXT;
BEGIN
    FOREACH kind IN ARRAY ARRAY['relay', 'pruner', 'console'] LOOP
        BEGIN
            EXECUTE FORMAT('CREATE ROLE %I LOGIN PASSWORD %L', 'compose_' || kind, kind);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
        EXECUTE FORMAT('GRANT %I TO %I', 'openoutbox_' || kind, 'compose_' || kind);
    END LOOP;
END
$$;
