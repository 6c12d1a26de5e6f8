-- Optional, for ORDERING=key: the order of insertion, finer than created_at, also within one transaction.
-- An identity column: writers need no right on its sequence, and a plain INSERT stays as it is. Adding it rewrites
-- nothing. Rows that wait already are numbered by created_at, below all that come; rows that are DELIVERED already
-- share the number 0. Safe to run again.
-- Locks: the whole table, for as long as numbering the rows that wait takes.
DO $key_order$
BEGIN
    PERFORM insertion_order FROM openoutbox_events LIMIT 0;
EXCEPTION WHEN undefined_column THEN
    ALTER TABLE openoutbox_events ADD COLUMN insertion_order BIGINT NOT NULL DEFAULT 0;
    UPDATE openoutbox_events AS waiting SET insertion_order = numbered.place - numbered.total
    FROM (
        SELECT
            event_id,
            ROW_NUMBER() OVER (ORDER BY created_at, ctid) AS place,
            COUNT(*) OVER () AS total
        FROM openoutbox_events
        WHERE status <> 'DELIVERED'
    ) AS numbered
    WHERE waiting.event_id = numbered.event_id;
    ALTER TABLE openoutbox_events
        ALTER COLUMN insertion_order DROP DEFAULT,
        ALTER COLUMN insertion_order ADD GENERATED ALWAYS AS IDENTITY;
END
$key_order$;
