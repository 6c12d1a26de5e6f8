-- The archive job: one run at a time, and its deletion of rows.

-- name: lock_archive
-- One archiving of an outbox at a time, until the transaction ends; it may last as long as the job does.
-- Result: whether the lock was acquired. Locks: one advisory lock, made of "arch" in ASCII and the table's oid.
-- Parameters: outbox, its quoted name.
SELECT PG_TRY_ADVISORY_XACT_LOCK((1634886504::bigint << 32) | TO_REGCLASS(%(outbox)s::text)::oid::bigint);

-- name: remove_archived
-- Deletes the rows among these that are unchanged since they were archived: same time of change, same contents.
-- Waits for a row that another transaction has locked, then reads it as it is afterwards. Skipping it could lose it:
-- the other transaction may be about to delete it.
-- Index: the primary key, then a TID scan. Locks: the rows, in the order of their ids.
-- Parameters, arrays of one length: ids, changes (updated_at), digests. Result: the number of deleted rows.
WITH archived AS (
    SELECT source.event_id, source.updated_at, source.digest
    FROM UNNEST(%(ids)s::uuid [], %(changes)s::timestamptz [], %(digests)s::bytea []) AS source (
        event_id, updated_at, digest
    )
),

locked AS (
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

deleted AS (
    DELETE FROM openoutbox_events
    WHERE ctid = ANY(ARRAY(
        SELECT locked.tid
        FROM locked
        INNER JOIN archived ON locked.event_id = archived.event_id
        WHERE locked.updated_at = archived.updated_at AND locked.digest = archived.digest
    ))
    RETURNING event_id
)

SELECT COUNT(*) FROM deleted;

-- name: archived_left
-- Which of these rows are still in the outbox. Sent after remove_archived, in a statement of its own: rows that a
-- concurrent transaction deleted meanwhile are then no longer seen.
-- Index: the primary key. Locks nothing. Parameters: ids.
SELECT event_id::text FROM openoutbox_events
WHERE event_id = ANY(%(ids)s::uuid []);
