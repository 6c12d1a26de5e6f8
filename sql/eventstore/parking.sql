-- Streams that a subscription has set aside. relay/eventstore/parking.py describes them.

-- name: replay_until
-- Up to which position events were delivered before a reset. Index: the primary key. Locks: nothing.
SELECT ReplayUntil FROM public.event_subscription WHERE Name = %(name)s;

-- name: load
-- The streams that a subscription has set aside; in a group those of the slots that an instance holds, each with the
-- position of its slot. Tags: part. Index: the primary key. Locks: nothing.
SELECT TenantId, StreamId, Position, Due, 0::BIGINT AS SlotPosition --? !part
-- SELECT TenantId, StreamId, Position, Due, (%(slots)s::BIGINT[])[(uuid_hash_extended(StreamId, uuid_hash_extended(TenantId, 0)) & 255)::INT + 1] --? part
FROM public.event_parked
WHERE
    Name = %(name)s
    -- AND (%(slots)s::BIGINT[])[(uuid_hash_extended(StreamId, uuid_hash_extended(TenantId, 0)) & 255)::INT + 1] < 9223372036854775807 --? part
ORDER BY ParkedAt;

-- name: events
-- The next events of a stream from a position on and up to another one, of some types, up to the one with which they have
-- too many bytes; there is at least one row, where there is any. By position, as all readers read. Never prepare this: the
-- tenant must reach the planner as a constant.
-- Index: the partition's (TenantId, StreamId, Version). Locks: nothing.
SELECT SequenceNum, TenantId, StreamId, Version, Type, Meta, Data, LogDate
FROM (
    SELECT measured.*, SUM(measured.Bytes) OVER (ORDER BY measured.SequenceNum) AS BytesSoFar
    FROM (
        SELECT
            SequenceNum, TenantId, StreamId, Version, Type, Meta, Data, LogDate,
            PG_COLUMN_SIZE(Meta)
            + CASE
                WHEN PG_COLUMN_COMPRESSION(Data) IS NULL THEN COALESCE(PG_COLUMN_SIZE(Data), 0)
                ELSE OCTET_LENGTH(Data::TEXT)
            END AS Bytes
        FROM public.event
        WHERE
            TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID
            AND SequenceNum >= %(position)s::BIGINT AND SequenceNum <= %(until)s::BIGINT
            AND (%(types)s::TEXT[] IS NULL OR Type = ANY(%(types)s::TEXT[]))
        ORDER BY SequenceNum
        LIMIT (SELECT %(limit)s::INT)
    ) AS measured
) AS counted
WHERE BytesSoFar - Bytes < %(most_bytes)s::BIGINT
ORDER BY SequenceNum;

-- name: park
-- Sets a stream aside, behind an event; in the transaction of the acknowledgement. One that is set aside already stays
-- as it is. Index: the primary key. Locks: the row.
INSERT INTO public.event_parked (Name, TenantId, StreamId, Position, Version, Tries, Error)
VALUES (
    %(name)s, %(tenant)s::UUID, %(stream)s::UUID, %(position)s::BIGINT, %(version)s::INT, %(tries)s::INT, %(error)s
)
ON CONFLICT (Name, TenantId, StreamId) DO NOTHING;

-- name: park_again
-- A stream that is retried has failed again, at an event; no row where it was changed meanwhile. Index: the primary key.
-- Locks: the row.
UPDATE public.event_parked
SET
    Tries = %(tries)s::INT + CASE WHEN Position = %(position)s::BIGINT THEN Tries ELSE 0 END,
    Position = %(position)s::BIGINT,
    Version = %(version)s::INT,
    Error = %(error)s,
    Due = FALSE,
    ParkedAt = now()
WHERE
    Name = %(name)s AND TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID
    AND Due AND Position = %(read_from)s::BIGINT
RETURNING Name;

-- name: advance
-- Some events of a stream that is retried are applied, and more are behind them; no row where it was changed meanwhile.
-- Index: the primary key. Locks: the row.
UPDATE public.event_parked
SET Position = %(position)s::BIGINT + 1, Version = %(version)s::INT + 1, Tries = 0
WHERE
    Name = %(name)s AND TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID
    AND Due AND Position = %(read_from)s::BIGINT
RETURNING Name;

-- name: unpark
-- A stream that is retried has reached the others; no row where it was changed meanwhile. Index: the primary key.
-- Locks: the row.
DELETE FROM public.event_parked
WHERE
    Name = %(name)s AND TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID
    AND Due AND Position = %(read_from)s::BIGINT
RETURNING Name;

-- name: list
-- The streams that were set aside, of one subscription or of all, the oldest first, so many at most (NULL: all).
-- Index: the primary key. Locks: nothing.
SELECT Name, TenantId, StreamId, Position, Version, Tries, Error, Due, ParkedAt
FROM public.event_parked
WHERE %(name)s::TEXT IS NULL OR Name = %(name)s
ORDER BY ParkedAt, Name, TenantId, StreamId
LIMIT %(limit)s::BIGINT;

-- name: count
-- How many streams each subscription has set aside. Index: the primary key. Locks: nothing.
SELECT Name, COUNT(*) FROM public.event_parked GROUP BY Name;

-- name: waiting
-- How many streams each subscription has set aside, without those that it retries, and since when. Locks: none.
-- Result: subscription, count, time.
SELECT
    Name,
    COUNT(*),
    MIN(ParkedAt)
FROM public.event_parked
WHERE NOT Due
GROUP BY Name
ORDER BY COUNT(*) DESC, Name ASC;

-- name: retry
-- Lets the active instance retry streams that were set aside: one, or all of a subscription. Returns those that exist.
-- Index: the primary key. Locks: the rows.
UPDATE public.event_parked SET Due = TRUE
WHERE
    Name = %(name)s
    AND (%(tenant)s::UUID IS NULL OR (TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID))
RETURNING StreamId;

-- name: skip
-- Gives up the event at which a stream was set aside, and lets the active instance go on behind it; no row where it is
-- retried now. Index: the primary key. Locks: the row.
UPDATE public.event_parked SET Position = Position + 1, Version = Version + 1, Tries = 0, Due = TRUE
WHERE Name = %(name)s AND TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID AND NOT Due
RETURNING StreamId;

-- name: forget_stream
-- Deletes what subscriptions have set aside of a deleted stream. Index: the primary key. Locks: the rows.
DELETE FROM public.event_parked WHERE TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID;

-- name: forget_tenant
-- The same for a dropped tenant. Index: the primary key. Locks: the rows.
DELETE FROM public.event_parked WHERE TenantId = %(tenant)s::UUID RETURNING StreamId;

-- name: forget_all
-- The same for a subscription that is reset. Index: the primary key. Locks: the rows.
DELETE FROM public.event_parked WHERE Name = %(name)s;
