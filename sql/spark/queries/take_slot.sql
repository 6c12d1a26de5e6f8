-- One of a job's connections, held until the transaction ends; no row when all are taken. Stops at the first free one.
-- Locks: one advisory lock of two numbers, the job's and the slot's.
SELECT slot.number
FROM GENERATE_SERIES(1, %(slots)s::int) AS slot (number)
WHERE PG_TRY_ADVISORY_XACT_LOCK(%(space)s::int, slot.number)
LIMIT 1
