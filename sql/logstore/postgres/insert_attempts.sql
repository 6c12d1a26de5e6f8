-- Writes the attempts of a batch; one that is there already gets the newer status, code and response.
-- Sorted by key, so that two batches with the same attempts wait for each other instead of deadlocking. A copy that
-- changes nothing writes nothing.
-- Locks: the new and the conflicting rows.
INSERT INTO openoutbox_log.attempts AS known (
    id, event_id, tenant_id, destination_id, destination_type, topic, status, time, attempt_number, manual,
    code, response_data, event_time, eligible_for_retry, event_data, event_metadata, event_topic,
    event_destination_id, event_matched_destination_ids
)
SELECT
    id, event_id, tenant_id, destination_id, destination_type, topic, status, time, attempt_number, manual,
    code, response_data::json, event_time, eligible_for_retry, event_data, event_metadata::jsonb, event_topic,
    event_destination_id, event_matched_destination_ids::text []
FROM unnest(
    %(id)s::text [], %(event_id)s::text [], %(tenant_id)s::text [], %(destination_id)s::text [],
    %(destination_type)s::text [], %(topic)s::text [], %(status)s::text [], %(time)s::timestamptz [],
    %(attempt_number)s::integer [], %(manual)s::boolean [], %(code)s::text [], %(response_data)s::text [],
    %(event_time)s::timestamptz [], %(eligible_for_retry)s::boolean [], %(event_data)s::bytea [],
    %(event_metadata)s::text [], %(event_topic)s::text [], %(event_destination_id)s::text [],
    %(event_matched_destination_ids)s::text []
) AS given (
    id, event_id, tenant_id, destination_id, destination_type, topic, status, time, attempt_number, manual,
    code, response_data, event_time, eligible_for_retry, event_data, event_metadata, event_topic,
    event_destination_id, event_matched_destination_ids
)
ORDER BY time, id COLLATE "C", tenant_id COLLATE "C"
ON CONFLICT (time, id, tenant_id) DO UPDATE
SET status = excluded.status, code = excluded.code, response_data = excluded.response_data
WHERE
    (known.status, known.code, known.response_data::text)
    IS DISTINCT FROM (excluded.status, excluded.code, excluded.response_data::text)
