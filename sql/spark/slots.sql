-- The start of a task's transaction: its settings, and its slot among a job's connections.

-- name: task_settings
-- For this transaction: the server notices within a minute when the executor's machine is gone, and ends it, so that the
-- next attempt need not wait for its rows. Result: the transaction's time in microseconds since 2000.
SELECT
    SET_CONFIG('tcp_keepalives_idle', '30', TRUE),
    SET_CONFIG('tcp_keepalives_interval', '10', TRUE),
    SET_CONFIG('tcp_keepalives_count', '3', TRUE),
    (EXTRACT(EPOCH FROM NOW() - TIMESTAMPTZ '2000-01-01 00:00:00+00') * 1000000)::bigint;

-- name: lock_timeout
-- How long statements of this transaction wait for a lock. Locks nothing itself.
SELECT SET_CONFIG('lock_timeout', %(wait)s, TRUE);

-- name: take_slot
-- Takes one of a job's connections until the transaction ends; no row when all are taken. Stops at the first free one.
-- Locks: one advisory lock of two numbers, the job's and the slot's.
SELECT slot.number
FROM GENERATE_SERIES(1, %(slots)s::int) AS slot (number)
WHERE PG_TRY_ADVISORY_XACT_LOCK(%(space)s::int, slot.number)
LIMIT 1;
