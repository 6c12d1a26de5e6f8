-- The position of one event: registered first, drawn then.
CREATE OR REPLACE FUNCTION public.event_next_position() RETURNS BIGINT
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM public.event_register();
    RETURN pg_catalog.nextval('public.event_sequencenum_seq');
END
$$
