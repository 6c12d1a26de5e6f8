-- A page of events: for each combination of the driving filters' values an index range in order, merged.
-- Index: tenant -> idx_events_tenant_time; tenant and topic -> idx_events_tenant_topic_time; topic ->
-- idx_events_topic_time; id -> idx_events_id; none -> the key. What else filters is read and thrown away.
-- A single value is a constant for the planner, the limit inside is hidden from it, and has ties; see list_attempts.sql.
-- A condition on (time, id) alone would be right, but only the plain one on time prunes partitions.
SELECT e.*
FROM
    (SELECT) AS once
    CROSS JOIN unnest(%(tenant_id)s::text []) AS tenant (id) --? tenant_id many_tenants
    -- CROSS JOIN (SELECT (%(tenant_id)s::text [])[1]) AS tenant (id) --? tenant_id !many_tenants
    CROSS JOIN unnest(%(value)s::text []) AS branch (value) --? branch many_values
    -- CROSS JOIN (SELECT (%(value)s::text [])[1]) AS branch (value) --? branch !many_values
    CROSS JOIN LATERAL (
        SELECT
            e.id, e.tenant_id, e.destination_id, e.matched_destination_ids, e.time, e.topic, e.eligible_for_retry,
            e.data, e.metadata
        FROM openoutbox_log.events AS e
        WHERE
            true
            AND e.tenant_id = tenant.id --? tenant_id
            AND e.id = branch.value --? branch_event_id
            AND e.topic = branch.value --? branch_topic
            AND e.topic = any(%(topic)s::text []) --? filter_topic
            AND e.time >= %(gte)s --? gte
            AND e.time <= %(lte)s --? lte
            AND e.time > %(gt)s --? gt
            AND e.time < %(lt)s --? lt
            AND e.time <= %(at)s --? after desc
            AND (e.time, e.id) < (%(at)s, %(at_id)s::text COLLATE "C") --? after desc !twin
            -- AND (e.time, e.id, e.tenant_id) < (%(at)s, %(at_id)s::text COLLATE "C", %(at_tenant)s::text COLLATE "C") --? after desc twin
            -- AND e.time >= %(at)s --? after asc
            -- AND (e.time, e.id) > (%(at)s, %(at_id)s::text COLLATE "C") --? after asc !twin
            -- AND (e.time, e.id, e.tenant_id) > (%(at)s, %(at_id)s::text COLLATE "C", %(at_tenant)s::text COLLATE "C") --? after asc twin
        ORDER BY e.time DESC, e.id DESC --? desc
        -- ORDER BY e.time, e.id --? asc
        FETCH FIRST (SELECT %(fetch)s::bigint) ROWS WITH TIES
    ) AS e
ORDER BY e.time DESC, e.id DESC, e.tenant_id DESC --? desc
-- ORDER BY e.time, e.id, e.tenant_id --? asc
LIMIT %(fetch)s
