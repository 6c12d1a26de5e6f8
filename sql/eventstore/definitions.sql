-- The functions and triggers of every store, as they are now. They run after
-- positions_*.sql, and may be repeated.

-- name: refuse_position
-- Refuses a position that the store did not assign to this transaction: at the counter's next value it would stop every
-- append, and below the readers they would skip the event.
CREATE OR REPLACE FUNCTION public.event_refuse_position(p_position BIGINT) RETURNS BIGINT
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'position % was not assigned by the event store', p_position
    USING ERRCODE = 'ES002', HINT = 'Leave SequenceNum out of the INSERT: the store assigns positions.';
END
$$;

-- name: feed_trigger
-- One call a statement, on the parent only: nothing to clone into each tenant's partition.
-- Locks: the parent against writers, for an instant.
CREATE OR REPLACE TRIGGER trg_EventFeed AFTER INSERT ON public.event
REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION public.event_feed_inserted();

-- name: notify_function
-- Announces a statement's new events on channel eventrecorded as sequencenum/tenant/stream/version/type. Every role of
-- the database may listen: where tenants are isolated, the payload is empty and only wakes subscriptions.
-- PostgreSQL refuses payloads of 8,000 bytes and more: a type above 7,800 bytes is cut to its first 1,950 characters.
-- Where event_append_then_notify has begun, they are kept for it in its setting, which ends with the transaction. Else
-- they are left out while the server's queue of notifications is half full: a full one makes each COMMIT fail that notified.
-- Index: the catalogue's. Locks: nothing.
CREATE OR REPLACE FUNCTION public.NotifyEvent() RETURNS TRIGGER
LANGUAGE plpgsql AS $$
DECLARE
    v_kept TEXT := pg_catalog.current_setting('eventstore.kept', TRUE);
    v_payloads CONSTANT TEXT[] := CASE
        WHEN (SELECT relrowsecurity FROM pg_catalog.pg_class WHERE oid OPERATOR(pg_catalog.=) TG_RELID) THEN ARRAY['']
        ELSE ARRAY(
            SELECT
                SequenceNum || '/' || pg_catalog.replace(TenantId::TEXT, '-', '') || '/'
                || pg_catalog.replace(StreamId::TEXT, '-', '') || '/' || Version || '/'
                || CASE WHEN pg_catalog.octet_length(Type) > 7800 THEN pg_catalog.left(Type, 1950) ELSE Type END
            FROM inserted
        )
    END;
BEGIN
    IF v_kept <> '' THEN
        v_kept := pg_catalog.set_config('eventstore.kept', (v_kept::TEXT[] || v_payloads)::TEXT, TRUE);
    ELSIF pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.5 THEN
        PERFORM pg_catalog.pg_notify('eventrecorded', payload) FROM unnest(v_payloads) AS payload;
    END IF;
    RETURN NULL;
END
$$;

-- name: close_triggers
-- No role but the owner may use these functions in a trigger: the one of the feed runs with the owner's rights.
REVOKE EXECUTE ON FUNCTION
public.event_feed_inserted(), public.NotifyEvent(), public.event_refuse_position(BIGINT)
FROM PUBLIC;
