-- What a client sends to append. The arrays that are read as TEXT first are sent as PostgreSQL writes an array: not every
-- driver accepts that where it sees an array.

-- name: append
-- Appends to one stream: {first position, last position, new version}. What it uses and locks: event_append, or
-- event_append_once. Tags: plain, or once for events with ids.
SELECT
    public.event_append( --? plain
    -- public.event_append_once( --? once
        -- %(ids)s::TEXT::UUID[], --? once
        %(tenant)s::UUID, %(stream)s::UUID, %(expected)s::INT,
        %(types)s::TEXT::TEXT[], %(metas)s::TEXT::TEXT[], %(datas)s::TEXT::TEXT[]
    );

-- name: notifies_afterwards
-- Whether the store notifies, and has the procedure that does so after the append's commit. Locks: nothing.
SELECT
    TO_REGPROCEDURE(
        'public.event_append_then_notify(bigint[], bigint, uuid[], uuid, uuid, integer, text[], text[], text[])'
    ) IS NOT NULL
    AND EXISTS (
        SELECT 1 FROM pg_catalog.pg_trigger WHERE tgrelid = TO_REGCLASS('public.event') AND tgname = 'trg_eventrecorded'
    );

-- name: append_then_notify
-- As append; the notifications of the events are sent after its commit. In no transaction, and on a session of the
-- connection's own. What it uses and locks: event_append_then_notify.
CALL public.event_append_then_notify(
    NULL::BIGINT[], %(token)s::BIGINT, %(ids)s::TEXT::UUID[], %(tenant)s::UUID, %(stream)s::UUID, %(expected)s::INT,
    %(types)s::TEXT::TEXT[], %(metas)s::TEXT::TEXT[], %(datas)s::TEXT::TEXT[]
);

-- name: appended
-- The token of the newest append_then_notify of this session that was committed with notifications, and what that returned;
-- NULL where there was none. Locks: nothing.
SELECT NULLIF(CURRENT_SETTING('eventstore.appended', TRUE), '')::BIGINT[];

-- name: append_and_announce
-- Appends to one stream and announces its events in the outbox, in this order: positions and stream are locked before
-- rows of the outbox, by every append, so that no two wait for each other. One statement, so that the counter of a
-- gapless store is locked for one round trip. places are the places of the announced events in the append, from 1.
-- Events that an earlier append wrote are not announced again: its rows may have been delivered and pruned. An id that is
-- there already is not this append's: it fails, with SQLSTATE 23505. Announcements that a BEFORE trigger leaves out end the
-- append with SQLSTATE 22P02: the cast of a text that names them.
-- Result, tags, uses and locks: as append; the new rows of the outbox.
WITH appended AS MATERIALIZED (
    SELECT
        public.event_append( --? plain
        -- public.event_append_once( --? once
            -- %(ids)s::TEXT::UUID[], --? once
            %(tenant)s::UUID, %(stream)s::UUID, %(expected)s::INT,
            %(types)s::TEXT::TEXT[], %(metas)s::TEXT::TEXT[], %(datas)s::TEXT::TEXT[]
        ) AS numbers
),

identified AS MATERIALIZED (
    SELECT
        numbers[3] - %(count)s::INT AS version_before,
        public.event_announcement_ids(%(tenant)s::UUID, %(stream)s::UUID, numbers, %(count)s::INT) AS ids
    FROM appended
    WHERE CARDINALITY(numbers) = 3
),

announced AS (
    INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, available_at)
    SELECT
        identified.ids[new.place],
        new.event_type,
        new.partition_key,
        new.payload,
        new.headers || JSONB_BUILD_OBJECT('version', (identified.version_before + new.place)::TEXT),
        NOW()
    FROM identified
    CROSS JOIN
        UNNEST(
            %(places)s::INT[], %(event_types)s::TEXT[], %(partition_keys)s::TEXT[], %(payloads)s::BYTEA[],
            %(headers)s::JSONB[]
        ) AS new (place, event_type, partition_key, payload, headers)
    RETURNING 1
)

SELECT
    numbers,
    CASE
        WHEN
            CARDINALITY(numbers) = 3 AND (SELECT COUNT(*) FROM announced) < CARDINALITY(%(places)s::INT[])
            THEN CONCAT('announcements left out of ', CARDINALITY(%(places)s::INT[]), ': a BEFORE trigger')::INT
    END AS left_out
FROM appended;

-- name: version
-- The version of one stream, 0 when it has no event. Index: the partition's (TenantId, StreamId, Version).
SELECT COALESCE(MAX(Version), 0) FROM public.event WHERE TenantId = %(tenant)s::UUID AND StreamId = %(stream)s::UUID;

-- name: session_tenant
-- Whether row-level security confines this role to one tenant, and which one (empty when the setting is missing).
-- Locks: nothing.
SELECT ROW_SECURITY_ACTIVE('public.event'), COALESCE(CURRENT_SETTING('eventstore.tenant', TRUE), '');
