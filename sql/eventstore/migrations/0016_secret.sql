-- Migration 16: a secret of the store.

-- name: secret
-- 244 random bits that no role but the owner may read: with them the store makes what a session cannot forge, the ids of
-- announcements and the registrations of settled positions. Locks: the new table.
CREATE TABLE public.event_secret (
    OnlyRow BOOLEAN NOT NULL DEFAULT TRUE,
    Secret BYTEA NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()),
    CONSTRAINT pk_event_secret PRIMARY KEY (OnlyRow),
    CONSTRAINT check_only_row CHECK (OnlyRow)
);

-- name: draw
-- The secret. Index: the primary key. Locks: the new row.
INSERT INTO public.event_secret DEFAULT VALUES;

-- name: drop_announcement_id
-- It made an id of what every writer knows. Locks: the function.
DROP FUNCTION IF EXISTS public.event_announcement_id(UUID, UUID, UUID, BIGINT, BIGINT);
