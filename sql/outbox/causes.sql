-- Why events fail.

-- name: failing
-- Events that failed, grouped by type and error: of those that are dead, of those that wait for a later time, and of those
-- that are due, the newest (the next, the oldest) MOST. The error is the begin of last_error, of LONGEST characters. The
-- largest GROUPS groups are returned, the newest of equal ones. Groups are compared by bytes, which no collation makes slow.
-- What waits without a failed attempt is one group without a type: it was examined, too.
-- Indexes: idx_openoutbox_prune_dead and idx_openoutbox_processing_queue, three times MOST entries at most, after claim:guard in
-- its transaction. Locks: none. Parameters: most, longest, groups. Result: the fields of ErrorGroup; how many dead events, later
-- ones and due ones were examined, and how many groups there are.
WITH examined AS (
    (
        SELECT
            'dead' AS part,
            TRUE AS fails,
            event_id,
            event_type,
            partition_key,
            last_error,
            updated_at
        FROM openoutbox_events
        WHERE status = 'DEAD'
        ORDER BY updated_at DESC
        LIMIT (SELECT %(most)s::bigint)
    )
    UNION ALL
    (
        SELECT
            'later' AS part,
            attempts > 0 AS fails,
            event_id,
            event_type,
            partition_key,
            last_error,
            updated_at
        FROM openoutbox_events
        WHERE status = 'PENDING' AND available_at > NOW()
        ORDER BY available_at ASC
        LIMIT (SELECT %(most)s::bigint)
    )
    UNION ALL
    (
        SELECT
            'due' AS part,
            attempts > 0 AS fails,
            event_id,
            event_type,
            partition_key,
            last_error,
            updated_at
        FROM openoutbox_events
        WHERE status = 'PENDING' AND available_at <= NOW()
        ORDER BY available_at ASC
        LIMIT (SELECT %(most)s::bigint)
    )
)

SELECT
    CASE WHEN fails THEN LEFT(event_type, 4097) COLLATE "C" END AS failing_type,
    CASE WHEN fails THEN LEFT(COALESCE(last_error, ''), %(longest)s::int) COLLATE "C" END AS error,
    COUNT(*) FILTER (WHERE part = 'dead'),
    COUNT(*) FILTER (WHERE part <> 'dead'),
    ARRAY_AGG(HASHTEXT(partition_key)) FILTER (WHERE fails AND partition_key IS NOT NULL),
    MIN(updated_at),
    MAX(updated_at),
    MAX(event_id::text COLLATE "C"),
    ARRAY_AGG(FLOOR(DATE_PART('epoch', updated_at) / 60)::int) FILTER (
        WHERE fails AND updated_at > NOW() - INTERVAL '1 hour' AND updated_at <= NOW()
    ),
    (SUM(COUNT(*) FILTER (WHERE part = 'dead')) OVER ())::bigint,
    (SUM(COUNT(*) FILTER (WHERE part = 'later')) OVER ())::bigint,
    (SUM(COUNT(*) FILTER (WHERE part = 'due')) OVER ())::bigint,
    COUNT(*) OVER ()
FROM examined
GROUP BY failing_type, error
ORDER BY COUNT(*) DESC, MAX(updated_at) DESC
LIMIT (SELECT %(groups)s::bigint);
