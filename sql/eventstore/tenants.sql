-- Tenants: a partition each, created and dropped without blocking readers or writers.

-- name: lock
-- Lets one session at a time change a tenant's partition, until its transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('public.event/' || %(tenant)s::UUID, 0));

-- name: bucket
-- The number of the bucket that a tenant belongs to. Locks: nothing.
SELECT TO_CHAR(bucket, 'FM00')
FROM GENERATE_SERIES(0, 63) AS bucket
WHERE SATISFIES_HASH_PARTITION('public.event_tenants'::REGCLASS, 64, bucket, %(tenant)s::UUID);

-- name: create
-- A tenant's partition, at first a table of its own: CREATE TABLE ... PARTITION OF would lock readers out.
-- Locks: the new table.
CREATE TABLE public.event_00000000000000000000000000000000 (
    LIKE public.event INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMPRESSION
);

-- name: attach
-- Makes the table a partition; this creates its indexes. Locks: the bucket against other changes of its
-- partitions, and neither against readers nor writers.
ALTER TABLE public.event_tenants_00 ATTACH PARTITION public.event_00000000000000000000000000000000
FOR VALUES IN ('00000000-0000-0000-0000-000000000000');

-- name: list
-- All tenants with a partition, in the order of their ids; to a role that row-level security confines only its own. It reads the catalogue, not pg_partition_tree(), which
-- locks every partition. Locks: nothing.
SELECT SUBSTRING(partition.relname FROM 7)::UUID AS tenant
FROM pg_catalog.pg_class AS partition
INNER JOIN pg_catalog.pg_inherits AS link ON partition.oid = link.inhrelid
WHERE
    partition.relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = 'public.event'::REGCLASS)
    AND partition.relkind = 'r' AND NOT link.inhdetachpending
    AND partition.relname ~ '^event_[0-9a-f]{32}$'
    AND (
        NOT ROW_SECURITY_ACTIVE('public.event')
        OR SUBSTRING(partition.relname FROM 7)::UUID = NULLIF(CURRENT_SETTING('eventstore.tenant', TRUE), '')::UUID
    )
ORDER BY partition.relname;

-- name: state
-- A tenant's partition, if it exists: the bucket that it is attached to (NULL when it is detached), whether detaching it was
-- interrupted. Indexes: those of the catalogue. Locks: nothing.
SELECT
    parent.relname AS bucket,
    COALESCE(link.inhdetachpending, FALSE) AS detaching
FROM pg_catalog.pg_class AS partition
LEFT JOIN pg_catalog.pg_inherits AS link ON partition.oid = link.inhrelid
LEFT JOIN pg_catalog.pg_class AS parent ON link.inhparent = parent.oid
WHERE partition.oid = TO_REGCLASS('public.event_00000000000000000000000000000000');

-- name: own_pid
-- The process id of this session. Not the driver's: a pooler answers that with another one. Locks: nothing.
SELECT pg_backend_pid();

-- name: blockers
-- The sessions that a session waits for: process id (0 of a prepared transaction), user, application, and the seconds since
-- their transactions began, where this role may see that. Locks: nothing.
SELECT blocker.pid, session.usename, session.application_name, EXTRACT(EPOCH FROM now() - session.xact_start)::INT
FROM UNNEST(pg_blocking_pids(%(pid)s::INT)) AS blocker (pid)
LEFT JOIN pg_catalog.pg_stat_activity AS session ON blocker.pid = session.pid
ORDER BY blocker.pid
LIMIT 3;

-- name: lock_session
-- The same lock as lock, held until unlock_session: detaching cannot run inside a transaction.
SELECT pg_advisory_lock(hashtextextended('public.event/' || %(tenant)s::UUID, 0));

-- name: lock_bucket
-- Lets one session at a time detach partitions of a bucket, until unlock_bucket. A detach that is pending while this
-- lock is held was interrupted.
SELECT pg_advisory_lock(hashtextextended('public.event_tenants/' || %(bucket)s, 0));

-- name: detaching
-- The tenants of a bucket whose detach is pending: PostgreSQL allows one, and refuses the next detach.
-- Indexes: those of the catalogue. Locks: nothing.
SELECT SUBSTRING(partition.relname FROM 7)::UUID AS tenant
FROM pg_catalog.pg_inherits AS link
INNER JOIN pg_catalog.pg_class AS partition ON link.inhrelid = partition.oid
WHERE link.inhparent = 'public.event_tenants_00'::REGCLASS AND link.inhdetachpending;

-- name: unlock_bucket
-- Releases the lock of lock_bucket.
SELECT pg_advisory_unlock(hashtextextended('public.event_tenants/' || %(bucket)s, 0));

-- name: detach
-- Takes a partition out of the table without blocking readers or writers: it waits for the transactions that use the
-- bucket now. Not inside a transaction. Locks: the bucket against other changes of its partitions.
ALTER TABLE public.event_tenants_00 DETACH PARTITION public.event_00000000000000000000000000000000 CONCURRENTLY;

-- name: detach_direct
-- Takes out a partition that was created by hand below the table itself, which has a default partition: so PostgreSQL
-- cannot do it concurrently. Locks: the table exclusively, and waits for it at most as long as lock_timeout says.
ALTER TABLE public.event DETACH PARTITION public.event_00000000000000000000000000000000;

-- name: wait_shortly
-- Lets this transaction wait half a second for a lock: appends and readers queue behind it. Locks: nothing.
SELECT set_config('lock_timeout', '500ms', TRUE);

-- name: finalize
-- Completes a detach that was interrupted. Locks: as detach.
ALTER TABLE public.event_tenants_00 DETACH PARTITION public.event_00000000000000000000000000000000 FINALIZE;

-- name: record_drop
-- Records up to which position the events of a dropped tenant are gone. Index: the primary key of its detached partition.
-- Locks: the record.
INSERT INTO public.event_dropped_tenant AS known (TenantId, Position)
SELECT TenantId, SequenceNum FROM public.event_00000000000000000000000000000000 ORDER BY SequenceNum DESC LIMIT 1
ON CONFLICT (TenantId) DO UPDATE SET Position = GREATEST(known.Position, EXCLUDED.Position), DroppedAt = now();

-- name: forget
-- Deletes up to 5,000 events of a detached partition from the feed, beginning after a position; returns the last of
-- them, NULL when none is left. Indexes: the primary keys of both. Locks: the rows deleted.
WITH batch AS (
    SELECT SequenceNum
    FROM public.event_00000000000000000000000000000000
    WHERE TenantId = '00000000-0000-0000-0000-000000000000' AND SequenceNum > %(after)s
    ORDER BY SequenceNum LIMIT 5000
),

deleted AS (
    DELETE FROM public.event_feed WHERE SequenceNum IN (SELECT SequenceNum FROM batch)
)

SELECT MAX(SequenceNum) FROM batch;

-- name: forget_feed
-- Deletes a tenant's events from the next 20,000 rows of the feed after a position, where its partition is gone; returns the
-- last of these rows, NULL when none is left, and how many were the tenant's. Index: the feed's primary key; the feed has
-- none of tenants. Locks: the rows deleted, and the record of dropped tenants.
WITH batch AS MATERIALIZED (
    SELECT SequenceNum, TenantId
    FROM public.event_feed
    WHERE SequenceNum > %(after)s::BIGINT
    ORDER BY SequenceNum LIMIT 20000
),

deleted AS (
    DELETE FROM public.event_feed AS listed USING batch
    WHERE listed.SequenceNum = batch.SequenceNum AND batch.TenantId = %(tenant)s::UUID
    RETURNING listed.SequenceNum
),

recorded AS (
    INSERT INTO public.event_dropped_tenant AS known (TenantId, Position)
    SELECT %(tenant)s::UUID, MAX(SequenceNum) FROM deleted HAVING COUNT(*) > 0
    ON CONFLICT (TenantId) DO UPDATE SET Position = GREATEST(known.Position, EXCLUDED.Position), DroppedAt = now()
)

SELECT (SELECT MAX(SequenceNum) FROM batch), (SELECT COUNT(*) FROM deleted);

-- name: forget_ids
-- Deletes up to 5,000 ids of a tenant's events; returns their number. Index: the primary key. Locks: the rows deleted.
WITH batch AS (
    SELECT StreamId, EventId FROM public.event_id WHERE TenantId = %(tenant)s::UUID LIMIT 5000
),

deleted AS (
    DELETE FROM public.event_id AS known
    USING batch
    WHERE known.TenantId = %(tenant)s::UUID AND known.StreamId = batch.StreamId AND known.EventId = batch.EventId
    RETURNING known.EventId
)

SELECT COUNT(*) FROM deleted;

-- name: forget_tombstones
-- Deletes the records of a tenant's deleted streams. Index: the primary key. Locks: the rows deleted.
DELETE FROM public.event_tombstone WHERE TenantId = %(tenant)s::UUID RETURNING StreamId;

-- name: drop
-- Drops a detached partition irreversibly. Locks: that table, which no session uses any more.
DROP TABLE public.event_00000000000000000000000000000000;

-- name: unlock_session
-- Releases the lock of lock_session.
SELECT pg_advisory_unlock(hashtextextended('public.event/' || %(tenant)s::UUID, 0));
