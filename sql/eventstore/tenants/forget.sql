-- Takes up to 5,000 events of a detached partition out of the feed, beginning after a position; returns the last of
-- them, NULL when there is none. Indexes: the primary keys of both. Locks: the rows deleted.
WITH batch AS (
    SELECT SequenceNum
    FROM public.event_00000000000000000000000000000000
    WHERE TenantId = '00000000-0000-0000-0000-000000000000' AND SequenceNum > %(after)s
    ORDER BY SequenceNum LIMIT 5000
),

gone AS (
    DELETE FROM public.event_feed WHERE SequenceNum IN (SELECT SequenceNum FROM batch)
)

SELECT MAX(SequenceNum) FROM batch
