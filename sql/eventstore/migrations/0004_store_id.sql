-- Migration 4: the identity of a store.

-- name: store_id
-- A number of its own for each store: the ids of announcements are derived from it. Locks: the settings, exclusively,
-- for an instant.
ALTER TABLE public.event_store ADD COLUMN StoreId UUID NOT NULL DEFAULT gen_random_uuid();
