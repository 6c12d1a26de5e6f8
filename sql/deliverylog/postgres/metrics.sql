-- Metrics: the counts by slot and dimensions, and before them how many combinations of dimension values there are,
-- which decides whether the answer would be too large. Both have the same filters. The columns are read by their names.

-- name: count_events
-- Counts events by slot and dimensions; where destinations matter, an event counts once for each it matched.
-- The last, empty, grouping expression makes one row where there is no other.
SELECT
    date_bin(%(width)s::interval, e.time, %(first)s) AS slot, --? uniform
    -- (%(begins)s::timestamptz [])[width_bucket(e.time, %(begins)s::timestamptz [])] AS slot, --? months
    e.tenant_id AS tenant_id, --? by_tenant_id
    e.topic AS topic, --? by_topic
    d.destination_id AS destination_id, --? by_destination_id
    count(*) AS total
FROM openoutbox_log.events AS e
CROSS JOIN LATERAL (SELECT DISTINCT unnest(e.matched_destination_ids) AS destination_id) AS d --? by_destination_id|filter_destination_id
WHERE
    e.time >= %(start)s AND e.time < %(end)s
    AND e.tenant_id = any(%(tenant_id)s::text []) --? filter_tenant_id
    AND e.topic = any(%(topic)s::text []) --? filter_topic
    AND d.destination_id = any(%(destination_id)s::text []) --? filter_destination_id
GROUP BY
    slot, --? uniform|months
    e.tenant_id, --? by_tenant_id
    e.topic, --? by_topic
    d.destination_id, --? by_destination_id
    ();

-- name: combine_events
-- How many combinations of dimension values there are in a range, counted no further than the limit.
SELECT count(*)
FROM (
    SELECT DISTINCT
        e.tenant_id, --? by_tenant_id
        e.topic, --? by_topic
        d.destination_id, --? by_destination_id
        true AS one
    FROM openoutbox_log.events AS e
    CROSS JOIN LATERAL (SELECT DISTINCT unnest(e.matched_destination_ids) AS destination_id) AS d --? by_destination_id|filter_destination_id
    WHERE
        e.time >= %(start)s AND e.time < %(end)s
        AND e.tenant_id = any(%(tenant_id)s::text []) --? filter_tenant_id
        AND e.topic = any(%(topic)s::text []) --? filter_topic
        AND d.destination_id = any(%(destination_id)s::text []) --? filter_destination_id
    LIMIT %(most)s
) AS combination;

-- name: count_attempts
-- Counts attempts by slot and dimensions. Reads the range of time once; with one tenant an index range of it.
-- The last, empty, grouping expression makes one row where there is no other.
SELECT
    date_bin(%(width)s::interval, a.time, %(first)s) AS slot, --? uniform
    -- (%(begins)s::timestamptz [])[width_bucket(a.time, %(begins)s::timestamptz [])] AS slot, --? months
    a.tenant_id AS tenant_id, --? by_tenant_id
    a.destination_id AS destination_id, --? by_destination_id
    a.destination_type AS destination_type, --? by_destination_type
    a.topic AS topic, --? by_topic
    a.status AS status, --? by_status
    a.code AS code, --? by_code
    a.manual AS manual, --? by_manual
    a.attempt_number AS attempt_number, --? by_attempt_number
    count(*) AS total,
    count(*) FILTER (WHERE a.status = 'success') AS successful,
    count(*) FILTER (WHERE a.status = 'failed') AS failed,
    count(*) FILTER (WHERE a.attempt_number = 1 AND NOT a.manual) AS first_attempts,
    count(*) FILTER (WHERE a.attempt_number > 1) AS retries,
    count(*) FILTER (WHERE a.manual) AS manual_retries,
    coalesce(sum(a.attempt_number), 0)::bigint AS number_sum
FROM openoutbox_log.attempts AS a
WHERE
    a.time >= %(start)s AND a.time < %(end)s
    AND a.tenant_id = any(%(tenant_id)s::text []) --? filter_tenant_id
    AND a.destination_id = any(%(destination_id)s::text []) --? filter_destination_id
    AND a.destination_type = any(%(destination_type)s::text []) --? filter_destination_type
    AND a.topic = any(%(topic)s::text []) --? filter_topic
    AND a.status = any(%(status)s::text []) --? filter_status
    AND a.code = any(%(code)s::text []) --? filter_code
    AND a.manual = any(%(manual)s::boolean []) --? filter_manual
    AND a.attempt_number = any(%(attempt_number)s::integer []) --? filter_attempt_number
GROUP BY
    slot, --? uniform|months
    a.tenant_id, --? by_tenant_id
    a.destination_id, --? by_destination_id
    a.destination_type, --? by_destination_type
    a.topic, --? by_topic
    a.status, --? by_status
    a.code, --? by_code
    a.manual, --? by_manual
    a.attempt_number, --? by_attempt_number
    ();

-- name: combine_attempts
-- How many combinations of dimension values there are in a range, counted no further than the limit.
SELECT count(*)
FROM (
    SELECT DISTINCT
        a.tenant_id, --? by_tenant_id
        a.destination_id, --? by_destination_id
        a.destination_type, --? by_destination_type
        a.topic, --? by_topic
        a.status, --? by_status
        a.code, --? by_code
        a.manual, --? by_manual
        a.attempt_number, --? by_attempt_number
        true AS one
    FROM openoutbox_log.attempts AS a
    WHERE
        a.time >= %(start)s AND a.time < %(end)s
        AND a.tenant_id = any(%(tenant_id)s::text []) --? filter_tenant_id
        AND a.destination_id = any(%(destination_id)s::text []) --? filter_destination_id
        AND a.destination_type = any(%(destination_type)s::text []) --? filter_destination_type
        AND a.topic = any(%(topic)s::text []) --? filter_topic
        AND a.status = any(%(status)s::text []) --? filter_status
        AND a.code = any(%(code)s::text []) --? filter_code
        AND a.manual = any(%(manual)s::boolean []) --? filter_manual
        AND a.attempt_number = any(%(attempt_number)s::integer []) --? filter_attempt_number
    LIMIT %(most)s
) AS combination;
