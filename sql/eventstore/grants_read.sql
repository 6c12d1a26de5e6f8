-- The rights of a role that reads streams and all events.

-- name: schema
-- To use the store's schema.
GRANT USAGE ON SCHEMA public TO app_role;

-- name: tables
-- To read events through the parent, the feed and the store's settings, and to export them.
GRANT SELECT ON
public.event, public.event_feed, public.event_store, public.event_id, public.event_tombstone,
public.event_dropped_tenant TO app_role;

-- name: positions
-- To see which positions have settled. Tags: gapless or settled.
GRANT SELECT ON public.event_position TO app_role; --? gapless
-- GRANT SELECT ON SEQUENCE public.event_sequencenum_seq TO app_role; --? settled

-- name: horizon
-- To ask how far a reader may read. Tags: gapless or settled.
GRANT EXECUTE ON FUNCTION public.event_horizon() TO app_role; --? gapless
-- GRANT EXECUTE ON FUNCTION public.event_horizon(), public.event_registrations() TO app_role; --? settled
