-- Counts events by slot and dimensions; where destinations matter, an event counts once for each it matched.
-- The last, empty, grouping expression makes one row where there is no other.
SELECT
    date_bin(%(width)s::interval, e.time, %(first)s) AS slot, --? uniform
    -- (%(begins)s::timestamptz [])[width_bucket(e.time, %(begins)s::timestamptz [])] AS slot, --? months
    e.tenant_id AS tenant_id, --? by_tenant_id
    e.topic AS topic, --? by_topic
    d.destination_id AS destination_id, --? by_destination_id
    count(*) AS count
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
    ()
