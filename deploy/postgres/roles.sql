-- Roles for an outbox, with no more rights than each needs. None can log in: grant them to users of yours, for example
--     CREATE ROLE orders LOGIN PASSWORD '…';  GRANT openoutbox_writer TO orders;
-- Run it after `relay-cli migrate`, as a superuser or as the table's owner with CREATEROLE, and again after a change:
--     psql "$STORAGE_URL" -v ON_ERROR_STOP=1 --single-transaction -f deploy/postgres/roles.sql
-- For a table of another name or schema, put that in place of openoutbox_events and public. Roles belong to the whole
-- server: for outboxes that must not share them, give them other names.
DO $$
DECLARE
    name TEXT;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'openoutbox_owner', 'openoutbox_writer', 'openoutbox_relay', 'openoutbox_pruner', 'openoutbox_reader'
    ] LOOP
        BEGIN
            EXECUTE FORMAT('CREATE ROLE %I NOLOGIN', name);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL; -- it exists, or another session has just created it
        END;
    END LOOP;
END
$$;

GRANT USAGE ON SCHEMA public
TO openoutbox_owner, openoutbox_writer, openoutbox_relay, openoutbox_pruner, openoutbox_reader;

-- The owner runs `relay-cli migrate`: log in as a member, with ?options=-crole%3Dopenoutbox_owner in STORAGE_URL.
GRANT CREATE ON SCHEMA public TO openoutbox_owner;
ALTER TABLE openoutbox_events OWNER TO openoutbox_owner;

-- The writer is the application.
GRANT INSERT ON openoutbox_events TO openoutbox_writer;

-- The relay, and `relay-cli stats`, `list`, `show`, `replay` and `check`: it never changes what an application wrote.
GRANT SELECT ON openoutbox_events TO openoutbox_relay;
GRANT UPDATE (status, attempts, last_error, available_at, locked_by, locked_at, delivered_at, updated_at)
ON openoutbox_events TO openoutbox_relay;

-- With ON_DELIVERED=delete also: GRANT DELETE ON openoutbox_events TO openoutbox_relay

-- With the extension replay-audit also: GRANT SELECT, INSERT ON openoutbox_replays TO openoutbox_relay (SELECT is for
-- the delivery log, which tells attempts that follow a replay from others).

-- The pruner. FOR UPDATE SKIP LOCKED needs the right to update one column; prune never updates it.
GRANT SELECT, DELETE ON openoutbox_events TO openoutbox_pruner;
GRANT UPDATE (updated_at) ON openoutbox_events TO openoutbox_pruner;

-- The reader looks: dashboards, `relay-cli stats`, `list` and `show`.
GRANT SELECT ON openoutbox_events TO openoutbox_reader;
