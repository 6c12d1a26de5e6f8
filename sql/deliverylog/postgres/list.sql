-- Pages of attempts and events: for each combination of the driving filters' values an index range in order, merged.
--
-- A single value is a constant for the planner, which then knows how frequent it is. Of a value in an array it knows
-- only the average, and in a month that does not hold the value it would read the whole month.
-- The inner limit is hidden from the planner. If it expected no more rows than the limit, it would fetch and sort them
-- all; where that estimate is wrong (a tenant whose attempts all fail), it would read everything.
-- Several values: in one transaction with session:jit_off.
-- The inner order is that of the indexes, and twins that differ only in the tenant are ties. With the tenant in it, only
-- the primary key has that order, and the planner would read it for a value that is common elsewhere.
-- A condition on (time, id) alone is correct, but only the plain one on time prunes partitions.
-- A page's bytes are bounded: the row that exceeds the bound is the last one, at least the second. Lengths are read
-- without the values. One window, over the rows as they come, numbers them and sums; its partition is a constant, because
-- the linter cannot parse a frame alone.

-- name: attempts
-- A page of attempts: for each combination of the driving filters' values an index range in order, merged.
-- Index: idx_attempts_tenant_X_time for a tenant and X, idx_attempts_X_time for X alone, where X is a code, a
-- destination, a topic or a status; idx_attempts_dest_failed_time and idx_attempts_tenant_dest_failed_time for the failures of a
-- destination; idx_attempts_dest_topic_time for a destination and one topic; idx_attempts_type_time; idx_attempts_event_time for an event; idx_attempts_tenant_time for a
-- tenant alone; the key for none; idx_attempts_event_order and idx_attempts_tenant_event_order for the order of the
-- events. What else filters is read and thrown away.
WITH listed AS (
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
                a.event_data, --? data
                -- ''::bytea AS event_data, --? !data
                a.event_metadata, a.event_topic, a.event_destination_id, a.event_matched_destination_ids
            FROM openoutbox_log.attempts AS a
            WHERE
                true
                AND a.tenant_id = tenant.id --? tenant_id
                AND a.event_id = branch.value --? branch_event_id
                AND a.destination_id = branch.value --? branch_destination_id
                AND a.destination_type = branch.value --? branch_destination_type
                AND a.topic = branch.value --? branch_topic
                AND a.status = branch.value --? branch_status
                AND a.code = branch.value --? branch_code
                AND a.destination_id = any(%(destination_id)s::text []) --? filter_destination_id
                AND a.destination_type = any(%(destination_type)s::text []) --? filter_destination_type
                AND a.topic = any(%(topic)s::text []) --? filter_topic
                -- AND a.topic = (%(topic)s::text [])[1] --? filter_one_topic
                AND a.status = any(%(status)s::text []) --? filter_status
                -- AND a.status = 'failed' --? filter_failed
                AND a.code = any(%(code)s::text []) --? filter_code
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
),

sized AS (
    SELECT
        listed.*,
        octet_length(listed.event_data) + octet_length(listed.event_metadata::text)
            + coalesce(octet_length(listed.response_data::text), 0) AS bytes
    FROM listed
),

counted AS (
    SELECT
        sized.*,
        row_number() OVER page AS number,
        sum(sized.bytes) OVER page AS bytes_so_far
    FROM sized
    WINDOW page AS (PARTITION BY true ROWS UNBOUNDED PRECEDING)
)

SELECT counted.*
FROM counted
WHERE counted.number <= 2 OR counted.bytes_so_far - counted.bytes <= %(most_bytes)s
ORDER BY counted.number;

-- name: events
-- A page of events: for each combination of the driving filters' values an index range in order, merged.
-- Index: tenant -> idx_events_tenant_time; tenant and topic -> idx_events_tenant_topic_time; topic ->
-- idx_events_topic_time; id -> idx_events_id; none -> the key. What else filters is read and thrown away.
WITH listed AS (
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
                e.data, --? data
                -- ''::bytea AS data, --? !data
                e.metadata
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
),

sized AS (
    SELECT
        listed.*,
        octet_length(listed.data) + octet_length(listed.metadata::text) AS bytes
    FROM listed
),

counted AS (
    SELECT
        sized.*,
        row_number() OVER page AS number,
        sum(sized.bytes) OVER page AS bytes_so_far
    FROM sized
    WINDOW page AS (PARTITION BY true ROWS UNBOUNDED PRECEDING)
)

SELECT counted.*
FROM counted
WHERE counted.number <= 2 OR counted.bytes_so_far - counted.bytes <= %(most_bytes)s
ORDER BY counted.number;

-- name: events_by_destination
-- A page of events that matched one of several destinations: the narrow link table is read in order, one range for
-- each tenant and destination, and only the events of those rows are fetched, by their key. An event that matched
-- two of the destinations is read twice and returned once. LIMIT 1 holds the planner to one look by key for each row.
-- The window is said of both, so that it spares the planner the other months of both.
-- Index: the key of event_destinations; without a tenant idx_event_destinations_time.
WITH listed AS (
    SELECT
        e.id, e.tenant_id, e.destination_id, e.matched_destination_ids, e.time, e.topic, e.eligible_for_retry,
        e.data, --? data
        -- ''::bytea AS data, --? !data
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
),

sized AS (
    SELECT
        listed.*,
        octet_length(listed.data) + octet_length(listed.metadata::text) AS bytes
    FROM listed
),

counted AS (
    SELECT
        sized.*,
        row_number() OVER page AS number,
        sum(sized.bytes) OVER page AS bytes_so_far
    FROM sized
    WINDOW page AS (PARTITION BY true ROWS UNBOUNDED PRECEDING)
)

SELECT counted.*
FROM counted
WHERE counted.number <= 2 OR counted.bytes_so_far - counted.bytes <= %(most_bytes)s
ORDER BY counted.number;
