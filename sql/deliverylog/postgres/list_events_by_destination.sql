-- A page of events that matched one of several destinations: the narrow link table is read in order, one range for
-- each tenant and destination, and only the events of those rows are fetched, by their key. An event that matched
-- two of the destinations is found twice and kept once. LIMIT 1 holds the planner to one look by key for each row.
-- The limit inside is hidden from the planner, and has ties; a single value is a constant for it: see list_attempts.sql.
-- The window is said of both, so that it spares the planner the other months of both.
-- Index: the key of event_destinations; without a tenant idx_event_destinations_time.
SELECT
    e.id, e.tenant_id, e.destination_id, e.matched_destination_ids, e.time, e.topic, e.eligible_for_retry, e.data,
    e.metadata
FROM (
    SELECT DISTINCT
        link.time,
        link.id,
        link.tenant_id
    FROM
        unnest(%(value)s::text []) AS branch (value) --? many_values
        -- (SELECT (%(value)s::text [])[1]) AS branch (value) --? !many_values
        CROSS JOIN unnest(%(tenant_id)s::text []) AS tenant (id) --? tenant_id many_tenants
        -- CROSS JOIN (SELECT (%(tenant_id)s::text [])[1]) AS tenant (id) --? tenant_id !many_tenants
        CROSS JOIN LATERAL (
            SELECT
                d.time,
                d.id,
                d.tenant_id
            FROM openoutbox_log.event_destinations AS d
            CROSS JOIN LATERAL ( --? filter_topic|filter_event_id
                SELECT --? filter_topic|filter_event_id
                FROM openoutbox_log.events AS f --? filter_topic|filter_event_id
                WHERE d.time = f.time AND d.id = f.id AND d.tenant_id = f.tenant_id --? filter_topic|filter_event_id
                    AND f.topic = any(%(topic)s::text []) --? filter_topic
                    AND f.id = any(%(event_id)s::text []) --? filter_event_id
                LIMIT 1 --? filter_topic|filter_event_id
            ) AS passing --? filter_topic|filter_event_id
            WHERE
                d.destination_id = branch.value
                AND d.tenant_id = tenant.id --? tenant_id
                AND d.time >= %(gte)s --? gte
                AND d.time <= %(lte)s --? lte
                AND d.time > %(gt)s --? gt
                AND d.time < %(lt)s --? lt
                AND d.time <= %(at)s --? after desc
                AND (d.time, d.id) < (%(at)s, %(at_id)s::text COLLATE "C") --? after desc !twin
                -- AND (d.time, d.id, d.tenant_id) < (%(at)s, %(at_id)s::text COLLATE "C", %(at_tenant)s::text COLLATE "C") --? after desc twin
                -- AND d.time >= %(at)s --? after asc
                -- AND (d.time, d.id) > (%(at)s, %(at_id)s::text COLLATE "C") --? after asc !twin
                -- AND (d.time, d.id, d.tenant_id) > (%(at)s, %(at_id)s::text COLLATE "C", %(at_tenant)s::text COLLATE "C") --? after asc twin
            ORDER BY d.time DESC, d.id DESC --? desc
            -- ORDER BY d.time, d.id --? asc
            FETCH FIRST (SELECT %(fetch)s::bigint) ROWS WITH TIES
        ) AS link
    ORDER BY link.time DESC, link.id DESC, link.tenant_id DESC --? desc
    -- ORDER BY link.time, link.id, link.tenant_id --? asc
    LIMIT %(fetch)s
) AS page
CROSS JOIN LATERAL (
    SELECT f.*
    FROM openoutbox_log.events AS f
    WHERE
        page.time = f.time AND page.id = f.id AND page.tenant_id = f.tenant_id
        AND f.time >= %(gte)s --? gte
        AND f.time <= %(lte)s --? lte
        AND f.time > %(gt)s --? gt
        AND f.time < %(lt)s --? lt
    LIMIT 1
) AS e
ORDER BY e.time DESC, e.id DESC, e.tenant_id DESC --? desc
-- ORDER BY e.time, e.id, e.tenant_id --? asc
