-- What keeps vacuum from removing dead rows: the xmin horizon of this database.

-- name: held
-- What reaches back furthest: a session of this database or one that replicates (a standby's feedback), a prepared
-- transaction, a replication slot. Left out are sessions that vacuum, whose snapshots hold up no vacuum, and catalog_xmin of
-- slots, which holds catalogs alone.
-- Every role may read what is read here; without pg_read_all_stats SINCE is NULL for sessions of other roles.
-- Touches no table. Parameters: none. Result: the next transaction's number; NULL where nothing is held, else: the kind, its
-- name (a process id, an identifier), the name of its application, its role, since when it may hold the horizon in seconds,
-- how many transactions have begun since.
SELECT
    PG_SNAPSHOT_XMAX(PG_CURRENT_SNAPSHOT())::text::bigint,
    holder.kind,
    holder.name,
    holder.application,
    holder.role_name,
    EXTRACT(EPOCH FROM CLOCK_TIMESTAMP() - holder.since)::float8,
    holder.transactions
FROM (SELECT 1) AS one
LEFT JOIN (
    SELECT
        'pid' AS kind,
        session.pid::text AS name,
        session.application_name AS application,
        session.usename::text AS role_name,
        session.xact_start AS since,
        GREATEST(AGE(session.backend_xid), AGE(session.backend_xmin)) AS transactions,
        session.backend_xid IS NULL AS reads
    FROM pg_stat_activity AS session
    WHERE
        session.pid <> PG_BACKEND_PID()
        AND (session.datname = CURRENT_DATABASE() OR session.datid IS NULL)
        AND COALESCE(session.backend_xid, session.backend_xmin) IS NOT NULL
        AND session.pid NOT IN (SELECT vacuum.pid FROM pg_stat_progress_vacuum AS vacuum)
    UNION ALL
    SELECT
        'prepared transaction',
        prepared.gid,
        '',
        prepared.owner::text,
        prepared.prepared,
        AGE(prepared.transaction),
        FALSE
    FROM pg_prepared_xacts AS prepared
    WHERE prepared.database = CURRENT_DATABASE()
    UNION ALL
    SELECT
        'replication slot',
        slot.slot_name::text,
        '',
        '',
        NULL,
        AGE(slot.xmin),
        FALSE
    FROM pg_replication_slots AS slot
    WHERE slot.xmin IS NOT NULL
    -- A transaction that writes is in the snapshots of those that read beside it, and holds the horizon with them.
    ORDER BY transactions DESC, reads ASC, since ASC
    LIMIT 1
) AS holder ON TRUE;
