-- What claims in order per key read for the floors of keys (relay/outbox/floors.py).

-- name: keys
-- The keys that a claim of the oldest due rows would look at, for their floors.
-- Index: idx_openoutbox_processing_queue, as the claim. Locks: none. Parameters: window, due_from, created_from, due_until,
-- created_until; again (the name of idx_openoutbox_order_again).
-- Result: whether that index is there, the hashes of the keys, NULL for none, their highest number, and of the snapshot the
-- oldest transaction in progress and the first one that it did not see; one row.
SELECT
    COALESCE(
        (SELECT pg_index.indisvalid FROM pg_index WHERE pg_index.indexrelid = TO_REGCLASS(%(again)s::text)), FALSE
    ) AS usable,
    ARRAY_AGG(DISTINCT HASHTEXTEXTENDED(looked.partition_key, 0)) AS key_hashes,
    MAX(looked.insertion_order) AS highest,
    PG_SNAPSHOT_XMIN(PG_CURRENT_SNAPSHOT())::text::bigint AS in_progress_from,
    PG_SNAPSHOT_XMAX(PG_CURRENT_SNAPSHOT())::text::bigint AS unseen_from
FROM (
    SELECT
        partition_key,
        insertion_order
    FROM openoutbox_events
    WHERE
        status = 'PENDING' AND available_at <= NOW()
        AND (available_at, created_at)
        >= (TO_TIMESTAMP(%(due_from)s::float8), TO_TIMESTAMP(%(created_from)s::float8))
        AND (available_at, created_at)
        < (TO_TIMESTAMP(%(due_until)s::float8), TO_TIMESTAMP(%(created_until)s::float8))
    ORDER BY available_at, created_at
    LIMIT (SELECT %(window)s::bigint)
) AS looked
WHERE looked.partition_key IS NOT NULL;

-- name: ground_bounds
-- For the transaction of ground: it is cancelled after so long, and reads the table in its own order, a page at a time: by the
-- index alone the versions of each key are all over it. Local to the transaction; touches no table. Parameters: timeout (text,
-- milliseconds).
SELECT
    SET_CONFIG('statement_timeout', %(timeout)s::text, TRUE),
    SET_CONFIG('enable_indexscan', 'off', TRUE),
    SET_CONFIG('enable_seqscan', 'off', TRUE),
    SET_CONFIG('max_parallel_workers_per_gather', '0', TRUE),
    SET_CONFIG('jit', 'off', TRUE);

-- name: ground
-- The first unfinished event of each key, for the ground of the floors (relay/outbox/floors.py).
-- Index: idx_openoutbox_order_waiting, whole, after ground_bounds in its transaction. Locks: none. Parameters: most (rows of
-- the result). Result: the hash of the key, and the number.
SELECT
    HASHTEXTEXTENDED(partition_key, 0) AS hash,
    MIN(insertion_order) AS first
FROM openoutbox_events
WHERE status IN ('PENDING', 'DELIVERING') AND partition_key IS NOT NULL
GROUP BY HASHTEXTEXTENDED(partition_key, 0)
LIMIT %(most)s::bigint;
