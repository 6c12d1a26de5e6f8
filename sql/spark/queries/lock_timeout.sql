-- How long statements of this transaction wait for a lock. Locks nothing itself.
SELECT SET_CONFIG('lock_timeout', %(wait)s, TRUE)
