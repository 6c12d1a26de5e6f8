-- The rights of a role that appends, also by a plain INSERT.

-- name: schema
-- To use the store's schema.
GRANT USAGE ON SCHEMA public TO app_role;

-- name: events
-- To append through the parent, and to read the version of a stream.
GRANT SELECT, INSERT ON public.event TO app_role;

-- name: append
-- To append with a check of the version.
GRANT EXECUTE ON FUNCTION public.event_append(UUID, UUID, INT, TEXT[], TEXT[], TEXT[]) TO app_role;

-- name: append_once
-- To append events with ids.
GRANT EXECUTE ON FUNCTION
public.event_lock(UUID, UUID),
public.event_append_once(UUID[], UUID, UUID, INT, TEXT[], TEXT[], TEXT[])
TO app_role;

-- name: append_procedure
-- To append, and to notify afterwards.
GRANT EXECUTE ON PROCEDURE
public.event_append_then_notify(BIGINT[], BIGINT, UUID[], UUID, UUID, INT, TEXT[], TEXT[], TEXT[])
TO app_role;

-- name: ids
-- To look the ids up, and to store them.
GRANT SELECT, INSERT ON public.event_id TO app_role;

-- name: tombstones
-- To number new events of a deleted stream.
GRANT SELECT ON public.event_tombstone TO app_role;

-- name: announce
-- To announce what is appended; the outbox's own rights come on top.
GRANT EXECUTE ON FUNCTION public.event_announcement_ids(UUID, UUID, BIGINT[], INT) TO app_role;

-- name: store_id
-- To read the store's id.
GRANT SELECT ON public.event_store TO app_role;

-- name: positions
-- To take positions. Tags: gapless or settled.
GRANT EXECUTE ON FUNCTION public.event_take_positions(INT) TO app_role; --? gapless
-- GRANT EXECUTE ON FUNCTION --? settled
-- public.event_check_sequence(), public.event_register(), public.event_registration(), --? settled
-- public.event_next_position() TO app_role; --? settled

-- name: sequence
-- To draw positions. Tags: gapless (none are drawn: the grant of the schema is repeated) or settled.
GRANT USAGE ON SCHEMA public TO app_role; --? gapless
-- GRANT SELECT, USAGE ON SEQUENCE public.event_sequencenum_seq TO app_role; --? settled
