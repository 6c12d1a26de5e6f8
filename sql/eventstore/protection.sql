-- What refuses changes of stored events, as it is now. It runs after definitions.sql, and may be repeated.

-- name: refuse_function
-- Refuses a statement that changes stored events, unless its transaction or session allows changes: a guard against
-- mistakes of a role that has the rights. delete_stream allows them for its transactions.
CREATE OR REPLACE FUNCTION public.event_refuse_change() RETURNS TRIGGER
LANGUAGE plpgsql AS $$
BEGIN
    IF pg_catalog.current_setting('eventstore.changes', TRUE) IS DISTINCT FROM 'allowed' THEN
        RAISE EXCEPTION 'stored events are not changed: % of the table of events is refused', TG_OP
        USING
            ERRCODE = 'ES004',
            HINT = 'relay-cli store delete-stream deletes a stream, relay-cli tenant drop a tenant. To change rows all the '
            'same, send in the same transaction: SET LOCAL eventstore.changes = ''allowed''.';
    END IF;
    RETURN NULL;
END
$$;

-- name: refuse_trigger
-- One call a statement, on the parent only: nothing to clone into each tenant's partition. Dropping a partition is no
-- such statement. Locks: the parent against writers, for an instant.
CREATE OR REPLACE TRIGGER trg_EventChange BEFORE UPDATE OR DELETE OR TRUNCATE ON public.event
FOR EACH STATEMENT EXECUTE FUNCTION public.event_refuse_change();

-- name: close_refuse
-- No role but the owner may use the function in a trigger.
REVOKE EXECUTE ON FUNCTION public.event_refuse_change() FROM PUBLIC;
