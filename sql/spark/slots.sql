-- The start of a task's transaction: its time, and its slot among a job's connections.

-- name: transaction_time
-- The transaction's time in microseconds since 2000. Locks nothing.
SELECT (EXTRACT(EPOCH FROM NOW() - TIMESTAMPTZ '2000-01-01 00:00:00+00') * 1000000)::bigint;

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
