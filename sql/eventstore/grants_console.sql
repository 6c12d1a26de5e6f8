-- The rights of the console: to look at tenants, streams and subscriptions, and to retry or skip what is parked.

-- name: schema
-- To use the store's schema.
GRANT USAGE ON SCHEMA public TO app_role;

-- name: tables
-- To read events through the parent, the feed, the store's settings, and the subscriptions.
GRANT SELECT ON
public.event, public.event_feed, public.event_store,
public.event_subscription, public.event_subscription_member, public.event_subscription_slot, public.event_parked
TO app_role;

-- name: positions
-- To see which positions have settled. Tags: gapless or settled.
GRANT SELECT ON public.event_position TO app_role; --? gapless
-- GRANT SELECT ON SEQUENCE public.event_sequencenum_seq TO app_role; --? settled

-- name: horizon
-- To ask how far a reader may read. Tags: gapless or settled.
GRANT EXECUTE ON FUNCTION public.event_horizon() TO app_role; --? gapless
-- GRANT EXECUTE ON FUNCTION public.event_horizon(), public.event_registrations() TO app_role; --? settled

-- name: parked
-- To have a parked stream retried, or its first event given up.
GRANT UPDATE (Position, Version, Tries, Due) ON public.event_parked TO app_role;
