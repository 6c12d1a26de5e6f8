-- A tenant's partition, as yet a table of its own: CREATE TABLE ... PARTITION OF would lock readers out.
-- Locks: the new table.
CREATE TABLE public.event_00000000000000000000000000000000 (
    LIKE public.event INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMPRESSION
)
