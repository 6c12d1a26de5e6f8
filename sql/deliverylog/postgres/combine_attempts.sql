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
) AS combination
