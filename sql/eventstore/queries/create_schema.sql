-- The schema of the store, where it is not there yet. Locks: the new schema.
CREATE SCHEMA IF NOT EXISTS public
