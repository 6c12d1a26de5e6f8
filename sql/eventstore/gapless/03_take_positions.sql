-- Hands out that many positions and returns the last of them. Runs with the owner's rights: who may insert an event
-- needs none on the counter. Index: the primary key.
-- Locks: the counter's row until the transaction ends, so that others wait for its outcome.
CREATE OR REPLACE FUNCTION public.event_take_positions(p_count INT) RETURNS BIGINT
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_last BIGINT;
BEGIN
    UPDATE public.event_position SET Last = Last + p_count WHERE OnlyRow
    RETURNING Last INTO v_last;
    RETURN v_last;
END
$$
