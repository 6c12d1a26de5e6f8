-- Tells readers, once in a transaction and before it draws its first position, that every position this transaction
-- will draw is above the last one drawn so far. It tells them by a shared advisory lock, which nobody waits for and
-- which is given up after the transaction has become visible: its first number is the store, its second the low 32
-- bits of that position. The setting remembers that it was done, and is undone with the lock when a savepoint is.
-- Why not by transaction ids: a snapshot's upper end is not the next id to be given out, so that ids cannot tell which
-- of two transactions could still draw a lower position, and stored ids mean nothing after a dump is restored.
CREATE OR REPLACE FUNCTION public.event_register() RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
    v_store CONSTANT INT := pg_catalog.hashoid('public.event'::REGCLASS::OID);
    v_drawn BIGINT;
BEGIN
    IF pg_catalog.current_setting('eventstore.registered', TRUE) IS DISTINCT FROM v_store::TEXT THEN
        v_drawn := pg_catalog.pg_sequence_last_value('public.event_sequencenum_seq'::REGCLASS);
        IF v_drawn IS NULL THEN -- none drawn yet
            SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END INTO v_drawn
            FROM public.event_sequencenum_seq;
        END IF;
        PERFORM
            pg_catalog.pg_advisory_xact_lock_shared(v_store, v_drawn::BIT(32)::INT),
            pg_catalog.set_config('eventstore.registered', v_store::TEXT, TRUE);
    END IF;
END
$$
