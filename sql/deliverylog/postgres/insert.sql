-- A batch: its events, then its attempts, in one transaction.
-- Rows that are new are copied. Others come as one JSON document, which costs the client far less than an array for each
-- column. All are sorted by key: two batches with the same rows wait for each other instead of deadlocking.

-- name: events
-- Writes the new events of a batch, and for each of them the destinations that it matched.
-- Locks: the new rows.
WITH fresh AS (
    INSERT INTO openoutbox_log.events (
        id, tenant_id, destination_id, matched_destination_ids, time, topic, eligible_for_retry, data, metadata
    )
    SELECT
        id, tenant_id, destination_id, matched_destination_ids, time, topic, eligible_for_retry, data,
        metadata::jsonb
    FROM json_to_recordset(%(rows)s::json) AS batch (
        id text, tenant_id text, destination_id text, matched_destination_ids text [], time timestamptz, topic text,
        eligible_for_retry boolean, data bytea, metadata text
    )
    ORDER BY time, id COLLATE "C", tenant_id COLLATE "C"
    ON CONFLICT (time, id, tenant_id) DO NOTHING
    RETURNING tenant_id, matched_destination_ids, time, id
)

INSERT INTO openoutbox_log.event_destinations (tenant_id, destination_id, time, id)
SELECT DISTINCT fresh.tenant_id, matched.destination_id COLLATE "C", fresh.time, fresh.id
FROM fresh CROSS JOIN unnest(fresh.matched_destination_ids) AS matched (destination_id)
ON CONFLICT (tenant_id, destination_id, time, id) DO NOTHING;

-- name: new_events
-- Writes the events of a batch, sorted by key, none of which exists: one that does is an error (23505), and then the
-- batch is written again with "events".
-- Locks: the new rows.
COPY openoutbox_log.events (
    id, tenant_id, destination_id, matched_destination_ids, time, topic, eligible_for_retry, metadata, data
) FROM STDIN;

-- name: new_links
-- Writes the destinations that these events matched.
-- Locks: the new rows.
COPY openoutbox_log.event_destinations (tenant_id, destination_id, time, id) FROM STDIN;

-- name: new_attempts
-- Writes the attempts of a batch, sorted by key, none of which exists: as "new_events".
-- Locks: the new rows.
COPY openoutbox_log.attempts (
    id, event_id, tenant_id, destination_id, destination_type, topic, status, time, attempt_number, manual,
    code, response_data, event_time, eligible_for_retry, event_metadata, event_topic, event_destination_id,
    event_matched_destination_ids, event_data
) FROM STDIN;

-- name: attempts
-- Writes the attempts of a batch; an existing one gets the newer status, code and response.
-- A copy that changes nothing writes nothing.
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
FROM json_to_recordset(%(rows)s::json) AS batch (
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
    IS DISTINCT FROM (excluded.status, excluded.code, excluded.response_data::text);

-- name: known_attempts
-- How many attempts of a batch there are, after "attempts" wrote fewer rows than that: the others were there and equal, or a
-- trigger left them out. Index: the primary key. Locks: none.
SELECT count(*)
FROM json_to_recordset(%(rows)s::json) AS batch (id text, tenant_id text, time timestamptz)
INNER JOIN openoutbox_log.attempts AS known USING (time, id, tenant_id);
