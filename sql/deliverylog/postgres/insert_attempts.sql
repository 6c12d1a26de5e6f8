-- Writes the attempts of a batch; one that is there already gets the newer status, code and response.
-- Sorted by key, so that two batches with the same attempts wait for each other instead of deadlocking. A copy that
-- changes nothing writes nothing.
-- The batch comes as one JSON text, which costs the client far less than an array for each column.
-- Locks: the new and the conflicting rows.
INSERT INTO openoutbox_log.attempts AS known (
    id, event_id, tenant_id, destination_id, destination_type, topic, status, time, attempt_number, manual,
    code, response_data, event_time, eligible_for_retry, event_data, event_metadata, event_topic,
    event_destination_id, event_matched_destination_ids
)
SELECT
    id, event_id, tenant_id, destination_id, destination_type, topic, status, time, attempt_number, manual,
    code, response_data::json, event_time, eligible_for_retry, event_data, event_metadata::jsonb, event_topic,
    event_destination_id, event_matched_destination_ids
FROM json_to_recordset(%(rows)s::json) AS given (
    id text, event_id text, tenant_id text, destination_id text, destination_type text, topic text, status text,
    time timestamptz, attempt_number integer, manual boolean, code text, response_data text,
    event_time timestamptz, eligible_for_retry boolean, event_data bytea, event_metadata text, event_topic text,
    event_destination_id text, event_matched_destination_ids text []
)
ORDER BY time, id COLLATE "C", tenant_id COLLATE "C"
ON CONFLICT (time, id, tenant_id) DO UPDATE
SET status = excluded.status, code = excluded.code, response_data = excluded.response_data
WHERE
    (known.status, known.code, known.response_data::text)
    IS DISTINCT FROM (excluded.status, excluded.code, excluded.response_data::text)
