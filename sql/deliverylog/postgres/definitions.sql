-- The functions of the log, which hold no data: replaced whenever a migration is applied.

-- name: ensure_month
-- Gives the three partitioned tables their partition for the UTC month that holds an instant.
-- Made apart and then attached: ATTACH lets readers and writers of the parent go on (SHARE UPDATE EXCLUSIVE), which
-- CREATE TABLE ... PARTITION OF does not. There is no DEFAULT partition: every query would read it, and DETACH
-- CONCURRENTLY would be refused. Two callers at once: the second waits and finds it done. A table of that name that is
-- not attached belongs to the operator, who detached it: it is left alone, and the month has no partition. The bounds are
-- ISO 8601 in UTC, which every DateStyle and TimeZone of the session reads alike.
CREATE OR REPLACE FUNCTION openoutbox_log.ensure_month(instant timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    parent regclass;
    partition text;
    first timestamp := date_trunc('month', instant AT TIME ZONE 'UTC');
    bound constant text := 'YYYY-MM-DD"T"HH24:MI:SS"+00"';
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('openoutbox_log.ensure_month', 0));
    FOREACH parent IN ARRAY ARRAY[
        'openoutbox_log.events', 'openoutbox_log.event_destinations', 'openoutbox_log.attempts'
    ]::regclass[] LOOP
        SELECT format('%I.%I', n.nspname, c.relname || to_char(first, '_YYYY_MM')) INTO partition
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = parent;
        IF to_regclass(partition) IS NULL THEN
            EXECUTE format('CREATE TABLE %s (LIKE %s INCLUDING ALL)', partition, parent);
            EXECUTE format(
                'ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)', parent, partition,
                to_char(first, bound), to_char(first + interval '1 month', bound)
            );
        END IF;
    END LOOP;
END
$$;
