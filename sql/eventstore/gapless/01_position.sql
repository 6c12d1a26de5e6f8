-- The last position handed out: one row, whose lock is what makes positions gapless and visible in order.
-- Locks: the new table.
CREATE TABLE IF NOT EXISTS public.event_position (
    OnlyRow BOOLEAN NOT NULL DEFAULT TRUE,
    Last BIGINT NOT NULL,
    CONSTRAINT pk_event_position PRIMARY KEY (OnlyRow),
    CONSTRAINT check_only_row CHECK (OnlyRow)
)
