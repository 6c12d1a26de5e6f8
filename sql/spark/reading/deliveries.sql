-- Attempts of the delivery log for one of Spark's tasks: a range of times, and what its filters want.
-- A parameter that is NULL asks for nothing: bound by the client, it is a constant, and the planner drops its condition.
-- An event's topic and destination are kept only where they differ from the attempt's own.
-- Index: each month's primary key, by time; months outside the range are not looked at. Locks: ACCESS SHARE.
SELECT chosen_columns
FROM (
    SELECT
        a.id,
        a.event_id,
        a.tenant_id,
        a.destination_id,
        a.destination_type,
        a.topic,
        a.status,
        a.time,
        a.attempt_number,
        a.manual,
        a.code,
        a.response_data::text,
        a.event_time,
        a.eligible_for_retry,
        a.event_data,
        a.event_metadata,
        COALESCE(a.event_topic, a.topic) AS event_topic,
        COALESCE(a.event_destination_id, a.destination_id) AS event_destination_id
    FROM openoutbox_log.attempts AS a
) AS attempt
WHERE
    (%(range_from)s::timestamptz IS NULL OR time >= %(range_from)s::timestamptz)
    AND (%(range_below)s::timestamptz IS NULL OR time < %(range_below)s::timestamptz)
    AND (%(time_from)s::timestamptz IS NULL OR time >= %(time_from)s::timestamptz)
    AND (%(time_below)s::timestamptz IS NULL OR time < %(time_below)s::timestamptz)
    AND (%(event_time_from)s::timestamptz IS NULL OR event_time >= %(event_time_from)s::timestamptz)
    AND (%(event_time_below)s::timestamptz IS NULL OR event_time < %(event_time_below)s::timestamptz)
    AND (%(status_in)s::text [] IS NULL OR status = ANY(%(status_in)s::text []))
    AND (%(status_not)s::text [] IS NULL OR status <> ALL(%(status_not)s::text []))
    AND (%(topic_in)s::text [] IS NULL OR topic = ANY(%(topic_in)s::text []))
    AND (%(topic_not)s::text [] IS NULL OR topic <> ALL(%(topic_not)s::text []))
    AND (%(topic_prefix)s::text IS NULL OR STARTS_WITH(topic, %(topic_prefix)s::text))
    AND (%(event_id_in)s::text [] IS NULL OR event_id = ANY(%(event_id_in)s::text []))
    AND (%(tenant_id_in)s::text [] IS NULL OR tenant_id = ANY(%(tenant_id_in)s::text []))
    AND (%(destination_id_in)s::text [] IS NULL OR destination_id = ANY(%(destination_id_in)s::text []))
