-- GetStats: what waits, how old it is, and how many are dead.
-- Indexes: idx_openoutbox_metrics_count (index-only) counts, idx_openoutbox_metrics_lag and
-- idx_openoutbox_processing_queue answer their MIN with one row, idx_openoutbox_prune_dead (index-only) counts DEAD.
-- Locks: none. Ages are seconds, 0 when there is none; an infinite time has no age.
SELECT
    pending.fresh,
    pending.retrying,
    CASE WHEN ISFINITE(oldest.created) THEN GREATEST(DATE_PART('epoch', NOW() - oldest.created), 0) ELSE 0 END,
    CASE WHEN ISFINITE(due.since) THEN GREATEST(DATE_PART('epoch', NOW() - due.since), 0) ELSE 0 END,
    dead.rows
FROM
    (
        SELECT
            COUNT(*) FILTER (WHERE attempts = 0) AS fresh,
            COUNT(*) FILTER (WHERE attempts <> 0) AS retrying
        FROM openoutbox_events
        WHERE status = 'PENDING'
    ) AS pending,
    (SELECT MIN(created_at) AS created FROM openoutbox_events WHERE status = 'PENDING') AS oldest,
    (
        SELECT MIN(available_at) AS since FROM openoutbox_events
        WHERE status = 'PENDING' AND available_at <= NOW()
    ) AS due,
    (SELECT COUNT(*) AS rows FROM openoutbox_events WHERE status = 'DEAD') AS dead
