-- The functions and triggers of every store, as they are now. They run after the migrations, and may be repeated.

-- name: feed_function
-- Copies a statement's new events into the feed. Runs with the owner's rights, so that a tenant's own role needs none
-- on the feed. Its search_path is not pinned, which would cost each append 30 us: it names every operator, type and
-- table with its schema, and a transition table goes before any other. On another table it would copy forged events.
-- Locks: the new rows.
CREATE OR REPLACE FUNCTION public.event_feed_inserted() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF TG_RELID OPERATOR(pg_catalog.<>) 'public.event'::pg_catalog.regclass::pg_catalog.oid THEN
        RAISE EXCEPTION 'event_feed_inserted serves the table of events only, not %', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO public.event_feed (SequenceNum, TenantId, StreamId, Version, Type)
    SELECT SequenceNum, TenantId, StreamId, Version, Type FROM inserted;
    RETURN NULL;
END
$$;

-- name: feed_trigger
-- One call a statement, on the parent only: nothing to clone into each tenant's partition.
-- Locks: the parent against writers, for an instant.
CREATE OR REPLACE TRIGGER trg_EventFeed AFTER INSERT ON public.event
REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION public.event_feed_inserted();

-- name: notify_function
-- Announces a statement's new events on channel eventrecorded as sequencenum/tenant/stream/version/type.
-- PostgreSQL refuses payloads of 8,000 bytes and more: a type above 7,800 bytes is cut to its first 1,950 characters.
CREATE OR REPLACE FUNCTION public.NotifyEvent() RETURNS TRIGGER
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_notify(
        'eventrecorded',
        SequenceNum || '/' || pg_catalog.replace(TenantId::TEXT, '-', '') || '/'
        || pg_catalog.replace(StreamId::TEXT, '-', '') || '/' || Version || '/'
        || CASE WHEN pg_catalog.octet_length(Type) > 7800 THEN pg_catalog.left(Type, 1950) ELSE Type END
    )
    FROM inserted;
    RETURN NULL;
END
$$;

-- name: close_triggers
-- No role but the owner may use these functions in a trigger: the one of the feed runs with the owner's rights.
REVOKE EXECUTE ON FUNCTION public.event_feed_inserted(), public.NotifyEvent() FROM PUBLIC;
