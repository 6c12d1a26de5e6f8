-- Durable subscriptions: how far each has got, and which instance works on it until when.
-- Locks: the new table.
CREATE TABLE IF NOT EXISTS public.event_subscription (
    Name TEXT NOT NULL,
    Position BIGINT NOT NULL,
    Holder UUID,
    HeldUntil TIMESTAMPTZ,
    UpdatedAt TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT pk_event_subscription PRIMARY KEY (Name)
)
