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
    count(*) AS count,
    count(*) FILTER (WHERE a.status = 'success') AS successful,
    count(*) FILTER (WHERE a.status = 'failed') AS failed,
    count(*) FILTER (WHERE a.attempt_number = 1 AND NOT a.manual) AS first,
    count(*) FILTER (WHERE a.attempt_number > 1) AS retry,
    count(*) FILTER (WHERE a.manual) AS manual_retry,
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
    ()
