-- Optional: wakes the relays that listen when rows were inserted, so that none waits for the next poll.
-- One trigger a statement, and at most one notification in 5 ms over all writers together: NOTIFY takes a lock that
-- all committing transactions share, and one a statement would cost writers three quarters of their throughput. What
-- is not announced is found by polling, which is quick just after a wake-up. A sequence beside the table remembers the
-- last 5 ms that had one: sequences are outside of transactions, so no writer waits for another.
-- An insert does not fail for it: without its sequence (the table was renamed) the trigger does nothing, and while the
-- server's queue of notifications is half full it leaves them out: a full one makes each COMMIT that notified fail.
-- One thing it cannot know: PREPARE TRANSACTION fails in a transaction that notified. Do not add it where those that
-- insert are prepared (two-phase commit).
-- Safe to run again. Locks: SHARE ROW EXCLUSIVE on the table, for an instant.
CREATE SEQUENCE IF NOT EXISTS openoutbox_events_wake MINVALUE 0 START 0;

-- It runs with its owner's rights, so that writers need none on the sequence; all names in it are qualified.
CREATE OR REPLACE FUNCTION openoutbox_events_wake() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    slot CONSTANT BIGINT := FLOOR(EXTRACT(EPOCH FROM CLOCK_TIMESTAMP()) * 200);
    sequence CONSTANT REGCLASS := TO_REGCLASS(FORMAT('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME || '_wake'));
BEGIN
    IF sequence IS NOT NULL AND COALESCE(PG_SEQUENCE_LAST_VALUE(sequence), 0) < slot THEN
        PERFORM SETVAL(sequence, slot);
        IF PG_NOTIFICATION_QUEUE_USAGE() < 0.5 THEN
            PERFORM PG_NOTIFY('openoutbox_' || TG_RELID, '');
        END IF;
    END IF;
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER openoutbox_wake_trigger
AFTER INSERT ON openoutbox_events FOR EACH STATEMENT EXECUTE FUNCTION openoutbox_events_wake();
