-- How far a reader may read: every position up to the horizon belongs to a transaction that has ended, and has become
-- visible to any snapshot taken later. Newest is the last position drawn; above the horizon there is then a
-- transaction in flight. The order of the two looks is what makes it right: a position drawn before the first look
-- belongs to a transaction that registered earlier still, and that the second look finds or that has ended.
-- Not on a standby, which does not see the locks of the primary. Locks: nothing.
CREATE OR REPLACE FUNCTION public.event_horizon(OUT Horizon BIGINT, OUT Newest BIGINT)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_store CONSTANT INT := pg_catalog.hashoid('public.event'::REGCLASS::OID);
BEGIN
    IF pg_catalog.pg_is_in_recovery() THEN
        RAISE EXCEPTION 'positions cannot be told to be settled on a standby; read from the primary'
        USING ERRCODE = 'feature_not_supported';
    END IF;
    SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END INTO Newest
    FROM public.event_sequencenum_seq;
    SELECT least(Newest, min(Newest - ((Newest - objid::BIGINT) & 4294967295))) INTO Horizon
    FROM pg_catalog.pg_locks
    WHERE
        locktype = 'advisory' AND granted AND objsubid = 2
        AND classid = ((v_store::BIGINT + 4294967296) & 4294967295)::TEXT::OID
        AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database());
END
$$
