-- A page of attempts: for each combination of the driving filters' values an index range in order, merged.
-- Index: idx_attempts_tenant_X_time for a tenant and X, idx_attempts_X_time for X alone, where X is a destination, a
-- topic or a status; idx_attempts_type_time; idx_attempts_event_time for an event; idx_attempts_tenant_time for a
-- tenant alone; the key for none; idx_attempts_event_order and idx_attempts_tenant_event_order for the order of the
-- events. What else filters is read and thrown away.
-- A single value is a constant for the planner, which then knows how frequent it is. Of a value out of an array it knows
-- the average alone, and where a month holds but another one it would read that month looking for the first.
-- The limit inside is hidden from it: expecting no more rows than that, it would fetch all of them and sort, and where
-- it is wrong (a tenant whose attempts all fail) that is everything. Several values: with jit_off.sql in one transaction.
-- Inside, the order is the indexes' own, and twins that differ in the tenant alone are ties: with the tenant in it only
-- the key has the order as it stands, and would be read for a value that is common elsewhere.
-- A condition on (time, id) alone would be right, but only the plain one on time prunes partitions.
SELECT a.*
FROM
    (SELECT) AS once
    CROSS JOIN unnest(%(tenant_id)s::text []) AS tenant (id) --? tenant_id many_tenants
    -- CROSS JOIN (SELECT (%(tenant_id)s::text [])[1]) AS tenant (id) --? tenant_id !many_tenants
    CROSS JOIN unnest(%(value)s::text []) AS branch (value) --? branch many_values
    -- CROSS JOIN (SELECT (%(value)s::text [])[1]) AS branch (value) --? branch !many_values
    CROSS JOIN LATERAL (
        SELECT
            a.id, a.event_id, a.tenant_id, a.destination_id, a.destination_type, a.topic, a.status, a.time,
            a.attempt_number, a.manual, a.code, a.response_data, a.event_time, a.eligible_for_retry,
            a.event_data, a.event_metadata, a.event_topic, a.event_destination_id,
            a.event_matched_destination_ids
        FROM openoutbox_log.attempts AS a
        WHERE
            true
            AND a.tenant_id = tenant.id --? tenant_id
            AND a.event_id = branch.value --? branch_event_id
            AND a.destination_id = branch.value --? branch_destination_id
            AND a.destination_type = branch.value --? branch_destination_type
            AND a.topic = branch.value --? branch_topic
            AND a.status = branch.value --? branch_status
            AND a.destination_id = any(%(destination_id)s::text []) --? filter_destination_id
            AND a.destination_type = any(%(destination_type)s::text []) --? filter_destination_type
            AND a.topic = any(%(topic)s::text []) --? filter_topic
            AND a.status = any(%(status)s::text []) --? filter_status
            AND a.time >= %(gte)s --? gte
            AND a.time <= %(lte)s --? lte
            AND a.time > %(gt)s --? gt
            AND a.time < %(lt)s --? lt
            AND a.time <= %(at)s --? by_time after desc
            AND (a.time, a.id) < (%(at)s, %(at_id)s::text COLLATE "C") --? by_time after desc !twin
            -- AND (a.time, a.id, a.tenant_id) < (%(at)s, %(at_id)s::text COLLATE "C", %(at_tenant)s::text COLLATE "C") --? by_time after desc twin
            -- AND a.time >= %(at)s --? by_time after asc
            -- AND (a.time, a.id) > (%(at)s, %(at_id)s::text COLLATE "C") --? by_time after asc !twin
            -- AND (a.time, a.id, a.tenant_id) > (%(at)s, %(at_id)s::text COLLATE "C", %(at_tenant)s::text COLLATE "C") --? by_time after asc twin
            -- AND (a.event_time, a.event_id, a.time, a.id) < (%(at_event)s, %(at_event_id)s::text COLLATE "C", %(at)s, %(at_id)s::text COLLATE "C") --? after desc by_event !twin
            -- AND (a.event_time, a.event_id, a.time, a.id, a.tenant_id) < (%(at_event)s, %(at_event_id)s::text COLLATE "C", %(at)s, %(at_id)s::text COLLATE "C", %(at_tenant)s::text COLLATE "C") --? after desc by_event twin
            -- AND (a.event_time, a.event_id, a.time, a.id) > (%(at_event)s, %(at_event_id)s::text COLLATE "C", %(at)s, %(at_id)s::text COLLATE "C") --? after asc by_event !twin
            -- AND (a.event_time, a.event_id, a.time, a.id, a.tenant_id) > (%(at_event)s, %(at_event_id)s::text COLLATE "C", %(at)s, %(at_id)s::text COLLATE "C", %(at_tenant)s::text COLLATE "C") --? after asc by_event twin
        ORDER BY a.time DESC, a.id DESC --? desc by_time
        -- ORDER BY a.time, a.id --? asc by_time
        -- ORDER BY a.event_time DESC, a.event_id DESC, a.time DESC, a.id DESC --? desc by_event
        -- ORDER BY a.event_time, a.event_id, a.time, a.id --? asc by_event
        FETCH FIRST (SELECT %(fetch)s::bigint) ROWS WITH TIES
    ) AS a
ORDER BY a.time DESC, a.id DESC, a.tenant_id DESC --? desc by_time
-- ORDER BY a.time, a.id, a.tenant_id --? asc by_time
-- ORDER BY a.event_time DESC, a.event_id DESC, a.time DESC, a.id DESC, a.tenant_id DESC --? desc by_event
-- ORDER BY a.event_time, a.event_id, a.time, a.id, a.tenant_id --? asc by_event
LIMIT %(fetch)s
