-- What the operator's commands share, and listing and showing events.

-- name: list
-- Up to LIMIT events by the time at which they entered their status: created, claimed, delivered, died.
-- Tags: newest or oldest, which of them come first.
-- Indexes: one of each status gives its rows in order: idx_openoutbox_metrics_lag, idx_openoutbox_stuck_leases,
-- idx_openoutbox_prune_delivered, idx_openoutbox_prune_dead. A rare type, key or error walks that index to its end.
-- Locks: none. Parameters: statuses, limit, and where not NULL: newer, older, event_type, partition_key, error.
-- Result: the fields of ListedEvent; texts are cut, since a thousand rows with a megabyte in each would fill the memory.
SELECT
    event_id,
    LEFT(event_type, 4097),
    LEFT(partition_key, 4097),
    status,
    attempts,
    since,
    created_at,
    available_at,
    LEFT(locked_by, 1000),
    OCTET_LENGTH(payload),
    LEFT(last_error, 2000)
FROM (
    (
        SELECT
            *,
            created_at AS since
        FROM openoutbox_events
        WHERE
            status = 'PENDING'
            AND 'PENDING' = ANY(%(statuses)s::text[])
            AND (%(newer)s::timestamptz IS NULL OR created_at > %(newer)s::timestamptz)
            AND (%(older)s::timestamptz IS NULL OR created_at < %(older)s::timestamptz)
            AND (%(event_type)s::text IS NULL OR event_type = %(event_type)s::text)
            AND (%(partition_key)s::text IS NULL OR partition_key = %(partition_key)s::text)
            AND (%(error)s::text IS NULL OR POSITION(LOWER(%(error)s::text) IN LOWER(last_error)) > 0)
        ORDER BY created_at DESC --? newest
        -- ORDER BY created_at ASC --? oldest
        LIMIT %(limit)s::bigint
    )
    UNION ALL
    (
        SELECT
            *,
            locked_at AS since
        FROM openoutbox_events
        WHERE
            status = 'DELIVERING'
            AND 'DELIVERING' = ANY(%(statuses)s::text[])
            AND (%(newer)s::timestamptz IS NULL OR locked_at > %(newer)s::timestamptz)
            AND (%(older)s::timestamptz IS NULL OR locked_at < %(older)s::timestamptz)
            AND (%(event_type)s::text IS NULL OR event_type = %(event_type)s::text)
            AND (%(partition_key)s::text IS NULL OR partition_key = %(partition_key)s::text)
            AND (%(error)s::text IS NULL OR POSITION(LOWER(%(error)s::text) IN LOWER(last_error)) > 0)
        ORDER BY locked_at DESC --? newest
        -- ORDER BY locked_at ASC --? oldest
        LIMIT %(limit)s::bigint
    )
    UNION ALL
    (
        SELECT
            *,
            delivered_at AS since
        FROM openoutbox_events
        WHERE
            status = 'DELIVERED'
            AND 'DELIVERED' = ANY(%(statuses)s::text[])
            AND (%(newer)s::timestamptz IS NULL OR delivered_at > %(newer)s::timestamptz)
            AND (%(older)s::timestamptz IS NULL OR delivered_at < %(older)s::timestamptz)
            AND (%(event_type)s::text IS NULL OR event_type = %(event_type)s::text)
            AND (%(partition_key)s::text IS NULL OR partition_key = %(partition_key)s::text)
            AND (%(error)s::text IS NULL OR POSITION(LOWER(%(error)s::text) IN LOWER(last_error)) > 0)
        ORDER BY delivered_at DESC --? newest
        -- ORDER BY delivered_at ASC --? oldest
        LIMIT %(limit)s::bigint
    )
    UNION ALL
    (
        SELECT
            *,
            updated_at AS since
        FROM openoutbox_events
        WHERE
            status = 'DEAD'
            AND 'DEAD' = ANY(%(statuses)s::text[])
            AND (%(newer)s::timestamptz IS NULL OR updated_at > %(newer)s::timestamptz)
            AND (%(older)s::timestamptz IS NULL OR updated_at < %(older)s::timestamptz)
            AND (%(event_type)s::text IS NULL OR event_type = %(event_type)s::text)
            AND (%(partition_key)s::text IS NULL OR partition_key = %(partition_key)s::text)
            AND (%(error)s::text IS NULL OR POSITION(LOWER(%(error)s::text) IN LOWER(last_error)) > 0)
        ORDER BY updated_at DESC --? newest
        -- ORDER BY updated_at ASC --? oldest
        LIMIT %(limit)s::bigint
    )
) AS found
ORDER BY since DESC --? newest
-- ORDER BY since ASC --? oldest
LIMIT %(limit)s::bigint;

-- name: show
-- One event, whole. Index: the primary key. Locks: none. Parameters: event_id.
SELECT
    event_id,
    event_type,
    partition_key,
    status,
    attempts,
    last_error,
    created_at,
    available_at,
    locked_by,
    locked_at,
    delivered_at,
    updated_at,
    headers::text,
    payload
FROM openoutbox_events
WHERE event_id = %(event_id)s::uuid;
