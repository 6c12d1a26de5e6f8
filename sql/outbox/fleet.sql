-- The relays of a table: join, beat, leave, list. Needs the table of extensions/fleet.sql.

-- name: list
-- Every row, the relay seen last first. Index: none, the table has a handful of rows. Locks: none.
-- Parameters: living (seconds). Result: the fields of FleetMember in their order.
SELECT
    relay_id,
    instance,
    version,
    host,
    started_at,
    seen_at,
    GREATEST(EXTRACT(EPOCH FROM NOW() - seen_at), 0)::float8,
    seen_at > NOW() - MAKE_INTERVAL(secs => %(living)s::float8),
    state,
    reason,
    destination_type,
    destination,
    lease_timeout,
    ordering,
    on_delivered,
    delivered_per_second,
    failed_per_second,
    in_flight,
    pauses,
    settings #>> '{MESSAGE_FORMAT,value}',
    settings #>> '{ROUTE_PREFIX,value}',
    settings #>> '{KAFKA_TRANSACTIONS,value}',
    settings #>> '{routes,digest}'
FROM openoutbox_relays
ORDER BY seen_at DESC, relay_id ASC;

-- name: settings
-- What each relay runs with, the living ones first. Index: none, the table has a handful of rows. Locks: none.
-- Parameters: living (seconds). Result: relay, host, version, living, settings (JSON text).
SELECT
    relay_id,
    host,
    version,
    seen_at > NOW() - MAKE_INTERVAL(secs => %(living)s::float8) AS living,
    (settings - 'routes')::text
FROM openoutbox_relays
ORDER BY living DESC, relay_id ASC, host ASC;

-- name: routes
-- The routes of the living relays that have some, as text. Index: none, the table has a handful of rows. Locks: none.
-- Parameters: living (seconds). Result: relay, routes.
SELECT
    relay_id,
    settings #>> '{routes,value}'
FROM openoutbox_relays
WHERE
    seen_at > NOW() - MAKE_INTERVAL(secs => %(living)s::float8)
    AND settings #>> '{routes,value}' IS NOT NULL
ORDER BY relay_id;

-- name: lock
-- One relay joins at a time, until the transaction ends. Heartbeats do not wait for it.
-- Parameters: relays (the table's name, quoted).
SELECT PG_ADVISORY_XACT_LOCK(1718972533, TO_REGCLASS(%(relays)s::text)::oid::int);

-- name: join
-- Add a relay's row, unless a living relay of the table has another destination. After lock in its transaction, so that
-- the row of a relay that joined at the same moment is seen.
-- A destination is a list of fingerprints of servers, and the same as another one that shares one of them.
-- Index: none. Locks: the new row. Parameters: the columns; living (seconds), allow_mixed.
-- Result: the living relays with another destination: id, host, destination type, destination. The row was added if
-- there is none, or allow_mixed.
WITH conflicting AS (
    SELECT
        relay_id,
        host,
        destination_type,
        destination
    FROM openoutbox_relays
    WHERE
        seen_at > NOW() - MAKE_INTERVAL(secs => %(living)s::float8)
        AND instance <> %(instance)s::uuid
        AND NOT (
            destination_type = %(destination_type)s::text
            AND STRING_TO_ARRAY(destination, ' ') && STRING_TO_ARRAY(%(destination)s::text, ' ')
        )
),

joined AS (
    INSERT INTO openoutbox_relays (
        instance, relay_id, version, host, state, destination_type, destination, lease_timeout, ordering, on_delivered,
        settings
    )
    SELECT
        %(instance)s::uuid,
        %(relay_id)s::text,
        %(version)s::text,
        %(host)s::text,
        'starting',
        %(destination_type)s::text,
        %(destination)s::text,
        %(lease_timeout)s::float8,
        %(ordering)s::text,
        %(on_delivered)s::text,
        %(settings)s::jsonb
    WHERE %(allow_mixed)s::boolean OR NOT EXISTS (SELECT FROM conflicting)
    ON CONFLICT (instance) DO UPDATE SET seen_at = NOW()
)

SELECT
    relay_id,
    host,
    destination_type,
    destination
FROM conflicting
ORDER BY relay_id;

-- name: longest_lease
-- The longest LEASE_TIMEOUT of the other living relays, 0 without one, and the ids of those without KAFKA_TRANSACTIONS;
-- in the transaction of join. Index: none. Locks: none. Parameters: living (seconds), instance.
SELECT
    COALESCE(MAX(lease_timeout), 0),
    COALESCE(
        ARRAY_AGG(relay_id ORDER BY relay_id) FILTER (
            WHERE settings #>> '{KAFKA_TRANSACTIONS,value}' IS DISTINCT FROM 'true'
        ),
        '{}'
    )
FROM openoutbox_relays
WHERE
    seen_at > NOW() - MAKE_INTERVAL(secs => %(living)s::float8)
    AND instance <> %(instance)s::uuid;

-- name: beat
-- Write a relay's heartbeat, its row again where it was deleted; delete the rows of relays that are gone for long.
-- Index: the primary key. Locks: the rows it writes.
-- Parameters: the columns; living and forgotten (seconds). Result: the other living relays: id, destination type,
-- destination, LEASE_TIMEOUT, ordering, ON_DELIVERED, MESSAGE_FORMAT, ROUTE_PREFIX,
-- KAFKA_TRANSACTIONS, digest of the routes.
WITH beaten AS (
    INSERT INTO openoutbox_relays (
        instance, relay_id, version, host, state, reason, destination_type, destination, lease_timeout, ordering,
        on_delivered, delivered_per_second, failed_per_second, in_flight, pauses, settings
    )
    VALUES (
        %(instance)s::uuid,
        %(relay_id)s::text,
        %(version)s::text,
        %(host)s::text,
        %(state)s::text,
        %(reason)s::text,
        %(destination_type)s::text,
        %(destination)s::text,
        %(lease_timeout)s::float8,
        %(ordering)s::text,
        %(on_delivered)s::text,
        %(delivered_per_second)s::float8,
        %(failed_per_second)s::float8,
        %(in_flight)s::bigint,
        %(pauses)s::int,
        %(settings)s::jsonb
    )
    ON CONFLICT (instance) DO UPDATE SET
        seen_at = NOW(),
        state = excluded.state,
        reason = excluded.reason,
        delivered_per_second = excluded.delivered_per_second,
        failed_per_second = excluded.failed_per_second,
        in_flight = excluded.in_flight,
        pauses = excluded.pauses
),

deleted AS (
    DELETE FROM openoutbox_relays
    WHERE
        seen_at < NOW() - MAKE_INTERVAL(secs => %(forgotten)s::float8)
        AND instance <> %(instance)s::uuid
)

SELECT
    relay_id,
    destination_type,
    destination,
    lease_timeout,
    ordering,
    on_delivered,
    settings #>> '{MESSAGE_FORMAT,value}',
    settings #>> '{ROUTE_PREFIX,value}',
    settings #>> '{KAFKA_TRANSACTIONS,value}',
    settings #>> '{routes,digest}'
FROM openoutbox_relays
WHERE
    seen_at > NOW() - MAKE_INTERVAL(secs => %(living)s::float8)
    AND instance <> %(instance)s::uuid
ORDER BY relay_id;

-- name: leave
-- Delete a relay's row: it stops. Index: the primary key. Locks: that row. Parameters: instance.
DELETE FROM openoutbox_relays
WHERE instance = %(instance)s::uuid;
