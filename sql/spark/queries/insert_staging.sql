-- Everything that the successful attempts staged, in one statement: the moment in which a run becomes visible.
-- Fails as a whole when one event_id is there already; without a look at each it takes a fifth less time. The variant
-- "known" leaves those as they are; naming no column in ON CONFLICT, it needs no right to read.
-- Index: the outbox's primary key. Locks: the new rows; it waits for transactions in flight that insert the same ids.
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, available_at)
SELECT
    stage.event_id,
    stage.event_type,
    stage.partition_key,
    stage.payload,
    stage.headers,
    COALESCE(stage.available_at, NOW())
FROM openoutbox_spark.stage_00 AS stage
WHERE stage.attempt = ANY(%(attempts)s::bigint [])
ON CONFLICT DO NOTHING --? known
