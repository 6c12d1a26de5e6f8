-- Roles with no more rights than each job needs. None can log in: grant them to users of yours, for example
--     CREATE ROLE orders LOGIN PASSWORD '…';  GRANT openoutbox_writer TO orders;
-- Run it after `relay-cli migrate`, as a superuser or as the table's owner with CREATEROLE, and again after a change:
--     psql "$STORAGE_URL" -v ON_ERROR_STOP=1 --single-transaction -f deploy/postgres/roles.sql
-- For a table of another name or schema, put that in place of openoutbox_events and public. Roles belong to the whole
-- server: for outboxes that must not share them, give them other names.
--
-- Who works as what, and how `relay-cli check` examines a user of that role:
--     relay                           openoutbox_relay            check
--     prune                           openoutbox_pruner           check --for prune
--     dashboards, stats, list, show   openoutbox_reader           check --for reader
--     pause, resume, fleet            openoutbox_operator         check --for operator
--     application                     openoutbox_writer
--     a consumer with an inbox        openoutbox_consumer
--     migrate, store, log, spark      openoutbox_owner
--     the relay's DELIVERY_LOG_URL    openoutbox_log_recorder     check --for deliverylog
--     relay-cli log, Spark report     openoutbox_log_reader       check --for deliverylog
--     event store                     openoutbox_store_writer, _reader, _subscriber      check --for eventstore
--     Spark                           openoutbox_spark_writer, _archiver, _replayer      check --for spark
--     relay-cli console               openoutbox_console          check --for console
DO $$
DECLARE
    name TEXT;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'openoutbox_owner', 'openoutbox_writer', 'openoutbox_relay', 'openoutbox_pruner', 'openoutbox_reader',
        'openoutbox_operator', 'openoutbox_console', 'openoutbox_consumer',
        'openoutbox_log_recorder', 'openoutbox_log_reader',
        'openoutbox_store_writer', 'openoutbox_store_reader', 'openoutbox_store_subscriber',
        'openoutbox_spark_writer', 'openoutbox_spark_archiver', 'openoutbox_spark_replayer'
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
TO openoutbox_owner, openoutbox_writer, openoutbox_relay, openoutbox_pruner, openoutbox_reader, openoutbox_operator,
openoutbox_console, openoutbox_consumer, openoutbox_spark_writer, openoutbox_spark_archiver, openoutbox_spark_replayer;

-- The owner runs `relay-cli migrate`, `inbox migrate`, `log migrate`, `log partitions`, `log maintain`, `store migrate`,
-- `store grant` and `spark setup`: log in as a member, with ?options=-crole%3Dopenoutbox_owner in the URL. The delivery
-- log and Spark's ledgers are schemas of their own, which it creates.
GRANT CREATE ON SCHEMA public TO openoutbox_owner;
DO $$
BEGIN
    EXECUTE FORMAT('GRANT CREATE ON DATABASE %I TO openoutbox_owner', CURRENT_DATABASE());
END
$$;
ALTER TABLE openoutbox_events OWNER TO openoutbox_owner;

-- The writer is the application.
GRANT INSERT ON openoutbox_events TO openoutbox_writer;

-- The relay, and `relay-cli stats`, `list`, `show`, `replay` and `check`: it never changes what an application wrote.
GRANT SELECT ON openoutbox_events TO openoutbox_relay;
GRANT UPDATE (status, attempts, last_error, available_at, locked_by, locked_at, delivered_at, updated_at)
ON openoutbox_events TO openoutbox_relay;

DO $$
BEGIN
    GRANT UPDATE (acknowledged_by) ON openoutbox_events TO openoutbox_relay;
EXCEPTION WHEN undefined_column THEN
    NULL; -- the table does not have the extension fan-out
END
$$;

-- With ON_DELIVERED=delete also: GRANT DELETE ON openoutbox_events TO openoutbox_relay

-- With the extension replay-audit also: GRANT SELECT, INSERT ON openoutbox_replays TO openoutbox_relay (SELECT is for
-- the delivery log, which tells attempts that follow a replay from others).

-- The pruner. FOR UPDATE SKIP LOCKED needs the right to update one column; prune never updates it.
GRANT SELECT, DELETE ON openoutbox_events TO openoutbox_pruner;
GRANT UPDATE (updated_at) ON openoutbox_events TO openoutbox_pruner;

-- The reader looks: dashboards, `relay-cli stats`, `list` and `show`, and Spark's reconcile.
GRANT SELECT ON openoutbox_events TO openoutbox_reader;

-- The console reads events and changes them as an operator does: retry, replay, bury, cancel. It records each change:
-- run this file again after `relay-cli migrate --with console`. With the extension replay-audit also:
-- GRANT INSERT ON openoutbox_replays TO openoutbox_console. To let its admins prune also:
-- GRANT DELETE ON openoutbox_events TO openoutbox_console.
GRANT SELECT ON openoutbox_events TO openoutbox_console;
GRANT UPDATE (status, attempts, last_error, available_at, delivered_at, updated_at)
ON openoutbox_events TO openoutbox_console;
DO $$
BEGIN
    IF TO_REGCLASS('public.openoutbox_changes') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE ON openoutbox_changes TO openoutbox_console;
    END IF;
END
$$;

-- The operator pauses and resumes, and looks as the reader does. Both extensions are optional: run this file again after
-- `relay-cli migrate --with pause` or `--with fleet`. The relay writes its own row into the list of relays, and deletes
-- those of relays that are gone; pauses it only reads.
GRANT SELECT ON openoutbox_events TO openoutbox_operator;
DO $$
BEGIN
    IF TO_REGCLASS('public.openoutbox_pauses') IS NOT NULL THEN
        GRANT SELECT ON openoutbox_pauses TO openoutbox_relay, openoutbox_reader;
        GRANT SELECT, INSERT, UPDATE, DELETE ON openoutbox_pauses TO openoutbox_operator, openoutbox_console;
    END IF;
    IF TO_REGCLASS('public.openoutbox_relays') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON openoutbox_relays TO openoutbox_relay;
        GRANT SELECT ON openoutbox_relays TO openoutbox_reader, openoutbox_operator, openoutbox_console;
    END IF;
END
$$;

-- A consumer marks what it has handled in its inbox, where that is in this database: run this file again after `relay-cli
-- inbox migrate`. It needs INSERT; with SELECT it may also look whether an event was handled. The pruner also deletes old
-- marks, and the reader counts them. The operator has dead letters tried again or skips them.
DO $$
BEGIN
    IF TO_REGCLASS('public.openoutbox_inbox') IS NOT NULL THEN
        GRANT SELECT, INSERT ON openoutbox_inbox TO openoutbox_consumer;
        GRANT SELECT, DELETE, UPDATE (received_at) ON openoutbox_inbox TO openoutbox_pruner;
        GRANT SELECT ON openoutbox_inbox TO openoutbox_reader;
    END IF;
    -- Tries and dead letters, where `inbox migrate --with dead-letters` made the table.
    IF TO_REGCLASS('public.openoutbox_inbox_tries') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON openoutbox_inbox_tries TO openoutbox_consumer;
        GRANT SELECT ON openoutbox_inbox_tries TO openoutbox_reader;
        GRANT SELECT, UPDATE, DELETE ON openoutbox_inbox_tries TO openoutbox_operator;
        GRANT INSERT ON openoutbox_inbox TO openoutbox_operator;
    END IF;
END
$$;

-- The delivery log, where it is in this database: run this file again after `relay-cli log migrate` as the owner. The
-- recorder creates and drops no partition: run `relay-cli log maintain` daily as the owner.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'openoutbox_log') THEN
        GRANT USAGE ON SCHEMA openoutbox_log TO openoutbox_log_recorder, openoutbox_log_reader;
        GRANT SELECT, INSERT ON openoutbox_log.events, openoutbox_log.event_destinations, openoutbox_log.quarantine
        TO openoutbox_log_recorder;
        GRANT SELECT, INSERT, UPDATE (status, code, response_data) ON openoutbox_log.attempts
        TO openoutbox_log_recorder;
        GRANT USAGE ON SCHEMA openoutbox_log TO openoutbox_console;
        GRANT SELECT ON openoutbox_log.events, openoutbox_log.event_destinations, openoutbox_log.attempts
        TO openoutbox_log_reader, openoutbox_console;
    END IF;
END
$$;

-- The event store's rights depend on how it was created, so its own command grants them, after `relay-cli store migrate`:
--     relay-cli store grant openoutbox_store_writer writer
--     relay-cli store grant openoutbox_store_reader reader
--     relay-cli store grant openoutbox_store_subscriber subscriber
--     relay-cli store grant openoutbox_console console
-- and an application that announces in the outbox is a member of openoutbox_writer, too.

-- Likewise Spark's, with its ledgers:
--     relay-cli spark setup --role openoutbox_spark_writer
--     relay-cli spark setup --role openoutbox_spark_archiver --for archive
--     relay-cli spark setup --role openoutbox_spark_replayer --for replay
