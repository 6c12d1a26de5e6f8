-- Hands out that many positions and returns the last of them. Runs with the owner's rights: who may insert an event
-- needs none on the counter. Its search_path is not pinned, which would cost each append 30 us: whatever it uses is
-- named with its schema, the operator too. Index: the primary key.
-- Locks: the counter's row until the transaction ends, so that others wait for its outcome.
CREATE OR REPLACE FUNCTION public.event_take_positions(p_count INT) RETURNS BIGINT
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_last BIGINT;
BEGIN
    UPDATE public.event_position SET Last = Last OPERATOR(pg_catalog.+) p_count WHERE OnlyRow
    RETURNING Last INTO v_last;
    RETURN v_last;
END
$$
