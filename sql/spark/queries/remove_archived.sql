-- Deletes those of the given rows that still are what was archived: same moment of change, same contents.
-- A row that somebody holds is waited for, then looked at as it has become: to pass it over could lose it, since the
-- holder may be about to delete it.
-- Index: the primary key, then a TID scan. Locks: the rows, in the order of their ids.
-- Parameters, arrays of one length: ids, changes (updated_at), digests. Result: how many are gone.
WITH archived AS (
    SELECT given.event_id, given.updated_at, given.digest
    FROM UNNEST(%(ids)s::uuid [], %(changes)s::timestamptz [], %(digests)s::bytea []) AS given (
        event_id, updated_at, digest
    )
),

held AS (
    SELECT
        ctid AS tid,
        event_id,
        updated_at,
        SHA256(
            SHA256(payload) || CONVERT_TO(
                event_type || E'\n' || COALESCE('=' || partition_key, '') || E'\n' || headers::text, 'UTF8'
            )
        ) AS digest
    FROM openoutbox_events
    WHERE event_id = ANY(%(ids)s::uuid []) AND status IN ('DELIVERED', 'DEAD')
    ORDER BY event_id
    FOR UPDATE
),

gone AS (
    DELETE FROM openoutbox_events
    WHERE ctid = ANY(ARRAY(
        SELECT held.tid
        FROM held
        INNER JOIN archived ON held.event_id = archived.event_id
        WHERE held.updated_at = archived.updated_at AND held.digest = archived.digest
    ))
    RETURNING event_id
)

SELECT COUNT(*) FROM gone
