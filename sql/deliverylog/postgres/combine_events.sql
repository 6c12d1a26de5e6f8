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
) AS combination
