-- The copies: what an event is never changes, but for the header by which consumers know the replay; how it fared
-- begins anew. Headers that are no object keep the name under which they are sent.
-- An event that is still there (PENDING or DELIVERING) is on its way already and stays as it is.
-- Index: the primary key. Locks: the new rows; waits for a transaction that inserts the same event.
-- Parameters: replay_id, new (ids), and arrays of one length: ids, types, keys, payloads, headers, created.
-- Result: the ids that were inserted.
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, created_at)
SELECT
    copy.event_id,
    copy.event_type,
    copy.partition_key,
    copy.payload,
    CASE
        WHEN JSONB_TYPEOF(copy.headers) = 'object' THEN copy.headers
        ELSE JSONB_BUILD_OBJECT('X-Raw-Headers', copy.headers::text)
    END || JSONB_BUILD_OBJECT('replay_id', %(replay_id)s::text),
    copy.created_at
FROM UNNEST(
    %(ids)s::uuid [],
    %(types)s::text [],
    %(keys)s::text [],
    %(payloads)s::bytea [],
    %(headers)s::jsonb [],
    %(created)s::timestamptz []
) AS copy (event_id, event_type, partition_key, payload, headers, created_at)
WHERE copy.event_id = ANY(%(new)s::uuid [])
ON CONFLICT (event_id) DO NOTHING
RETURNING event_id::text
