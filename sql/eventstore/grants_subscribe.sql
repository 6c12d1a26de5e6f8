-- The rights of a role that subscribes, in addition to those of grants_read.sql.

-- name: subscriptions
-- To keep the checkpoints and leases of subscriptions.
GRANT SELECT, INSERT, UPDATE, DELETE
ON
public.event_subscription, public.event_subscription_member, public.event_subscription_slot, public.event_parked
TO app_role;
