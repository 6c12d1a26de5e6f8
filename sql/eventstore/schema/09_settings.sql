-- What was chosen when the store was made: one row.
-- Locks: the new table.
CREATE TABLE IF NOT EXISTS public.event_store (
    OnlyRow BOOLEAN NOT NULL DEFAULT TRUE,
    Positions TEXT NOT NULL,
    Notify BOOLEAN NOT NULL,
    CONSTRAINT pk_event_store PRIMARY KEY (OnlyRow),
    CONSTRAINT check_only_row CHECK (OnlyRow),
    CONSTRAINT check_positions CHECK (Positions IN ('gapless', 'settled'))
)
