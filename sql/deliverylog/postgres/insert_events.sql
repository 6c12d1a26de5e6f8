-- Writes the events of a batch that are not there yet, and for each of these the destinations it matched.
-- Sorted by key, so that two batches with the same events wait for each other instead of deadlocking.
-- The batch comes as one JSON text, which costs the client far less than an array for each column.
-- Locks: the new rows.
WITH fresh AS (
    INSERT INTO openoutbox_log.events (
        id, tenant_id, destination_id, matched_destination_ids, time, topic, eligible_for_retry, data, metadata
    )
    SELECT
        id, tenant_id, destination_id, matched_destination_ids, time, topic, eligible_for_retry, data,
        metadata::jsonb
    FROM json_to_recordset(%(rows)s::json) AS given (
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
ON CONFLICT (tenant_id, destination_id, time, id) DO NOTHING
