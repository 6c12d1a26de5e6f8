-- Migration 1: the counter of a gapless store.

-- name: position
-- The newest assigned position: one row, whose lock is what makes positions gapless and visible in order.
-- Locks: the new table.
CREATE TABLE IF NOT EXISTS public.event_position (
    OnlyRow BOOLEAN NOT NULL DEFAULT TRUE,
    Last BIGINT NOT NULL,
    CONSTRAINT pk_event_position PRIMARY KEY (OnlyRow),
    CONSTRAINT check_only_row CHECK (OnlyRow)
);

-- name: first_position
-- Positions begin at 1. Index: the primary key. Locks: the new row.
INSERT INTO public.event_position (Last) VALUES (0) ON CONFLICT DO NOTHING;
