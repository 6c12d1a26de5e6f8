-- What the relays of a table did, minute by minute. Needs the table of extensions/series.sql.

-- name: add
-- Adds a relay's counts to the minute that lies in the middle of the time in which it gathered them. Rows are written in the
-- order of their types, so that two relays in one minute wait for each other and never in a circle. Deletes the oldest rows
-- that are past the retention, 1,000 at most, and none that another relay is deleting.
-- Index: the primary key. Locks: the rows it writes. Parameters: gathered and retention (seconds), lag (of the row without a
-- type); arrays of one length: types, delivered, failed, dead. Result: the seconds until the next minute begins.
WITH added AS (
    INSERT INTO openoutbox_series AS series (minute, event_type, delivered, failed, dead, lag)
    SELECT
        DATE_TRUNC('minute', NOW() - MAKE_INTERVAL(secs => %(gathered)s::float8 / 2)),
        counted.event_type,
        counted.delivered,
        counted.failed,
        counted.dead,
        CASE WHEN counted.event_type = '' THEN %(lag)s::float8 ELSE 0 END
    FROM UNNEST(
        %(types)s::text[], %(delivered)s::bigint[], %(failed)s::bigint[], %(dead)s::bigint[]
    ) AS counted (event_type, delivered, failed, dead)
    ORDER BY counted.event_type
    ON CONFLICT (minute, event_type) DO UPDATE SET
        delivered = series.delivered + excluded.delivered,
        failed = series.failed + excluded.failed,
        dead = series.dead + excluded.dead,
        lag = GREATEST(series.lag, excluded.lag)
),

deleted AS (
    DELETE FROM openoutbox_series
    WHERE (minute, event_type) IN (
        SELECT
            minute,
            event_type
        FROM openoutbox_series
        WHERE minute < NOW() - MAKE_INTERVAL(secs => %(retention)s::float8)
        ORDER BY minute ASC
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    )
)

SELECT (60 - EXTRACT(SECOND FROM NOW()))::float8;

-- name: read
-- What the relays did in each of the last STEPS steps of MINUTES minutes, and in the step that goes on: of one type, or of
-- all. Every step has its row, the one that goes on the last. Index: the primary key. Locks: none.
-- Parameters: steps, minutes, event_type (NULL: all). Result: the fields of SeriesPoint in their order.
SELECT
    step.start,
    COALESCE(SUM(series.delivered) FILTER (WHERE series.wanted), 0)::bigint,
    COALESCE(SUM(series.failed) FILTER (WHERE series.wanted), 0)::bigint,
    COALESCE(SUM(series.dead) FILTER (WHERE series.wanted), 0)::bigint,
    COALESCE(MAX(series.lag), 0)::float8,
    COUNT(*) FILTER (WHERE series.event_type = '')
FROM (
    SELECT
        ago,
        DATE_TRUNC('minute', NOW()) - MAKE_INTERVAL(mins => ago * %(minutes)s::int) AS start
    FROM GENERATE_SERIES(0, %(steps)s::int) AS ago
) AS step
LEFT JOIN (
    SELECT
        minute,
        event_type,
        delivered,
        failed,
        dead,
        lag,
        (
            EXTRACT(EPOCH FROM DATE_TRUNC('minute', NOW()) - minute)::bigint / 60
            + %(minutes)s::bigint - 1
        ) / %(minutes)s::bigint AS ago,
        %(event_type)s::text IS NULL OR event_type = %(event_type)s::text AS wanted
    FROM openoutbox_series
    WHERE minute >= DATE_TRUNC('minute', NOW()) - MAKE_INTERVAL(mins => %(steps)s::int * %(minutes)s::int)
) AS series ON step.ago = series.ago
GROUP BY step.start
ORDER BY step.start;
