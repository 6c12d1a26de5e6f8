-- Looking for rows that wait, for the head of claims (relay/outbox/head.py).
-- Tagged lines belong to one variant of a statement; client/openoutbox/statements.py says how.

-- name: bounds
-- For the transaction of a look: it is cancelled after so long, and walks its index in order whatever the planner believes
-- (as claim:guard). Local to the transaction; touches no table. Parameters: timeout (text, milliseconds).
SELECT
    SET_CONFIG('statement_timeout', %(timeout)s::text, TRUE),
    SET_CONFIG('enable_sort', 'off', TRUE),
    SET_CONFIG('jit', 'off', TRUE);

-- name: look
-- The first due row between two places. Rows that became due in the last MARGIN seconds are left out: a transaction that is
-- older may yet commit.
-- Index: idx_openoutbox_processing_queue, after bounds in its transaction; the cost is that of the entries between the
-- places, dead ones included, up to the first row. Locks: none.
-- Tag paused: the first due row that is not left out, of ROWS rows and all that share the place of the last one. Tag in_part:
-- as in claim.sql:claim.
-- Parameters: due_from, created_from, due_until, created_until (seconds since 1970), margin (seconds); paused, in_part
-- (patterns of LIKE), rows.
-- Result: the time, and how long the look took; the place of the row; the place behind the last row that was looked at,
-- where ROWS were not enough. Times are in seconds since 1970; NULL for what there is not.
WITH looked AS MATERIALIZED (
    SELECT
        available_at,
        created_at,
        event_type NOT LIKE ALL(%(paused)s::text[]) --? paused
        -- AND @outbox/claim:free --? paused in_part|apart
        -- TRUE --? !paused
        AS free
    FROM openoutbox_events
    WHERE
        status = 'PENDING'
        AND available_at <= NOW() - MAKE_INTERVAL(secs => %(margin)s::float8)
        AND (available_at, created_at)
        >= (TO_TIMESTAMP(%(due_from)s::float8), TO_TIMESTAMP(%(created_from)s::float8))
        AND (available_at, created_at)
        < (TO_TIMESTAMP(%(due_until)s::float8), TO_TIMESTAMP(%(created_until)s::float8))
    ORDER BY available_at, created_at
    FETCH FIRST (%(rows)s::bigint) ROWS WITH TIES --? paused
    -- LIMIT (SELECT 1) --? !paused
),

first_free AS (
    SELECT
        available_at,
        created_at
    FROM looked
    WHERE free
    ORDER BY available_at, created_at
    LIMIT 1
),

last AS (
    SELECT
        MAX(available_at) AS available_at,
        COUNT(*) AS rows
    FROM looked
)

SELECT
    DATE_PART('epoch', NOW()),
    DATE_PART('epoch', CLOCK_TIMESTAMP() - STATEMENT_TIMESTAMP()),
    DATE_PART('epoch', first_free.available_at),
    DATE_PART('epoch', first_free.created_at),
    DATE_PART('epoch', last.available_at),
    (
        SELECT DATE_PART('epoch', MAX(tied.created_at) + INTERVAL '1 microsecond')
        FROM looked AS tied
        WHERE tied.available_at = last.available_at AND last.rows >= %(rows)s::bigint
    )
FROM last
LEFT JOIN first_free ON TRUE;
