-- Bounds the wait for a lock until the transaction ends: whoever is changing the table goes first. Touches no table.
-- Parameters: timeout (text, milliseconds).
SELECT SET_CONFIG('lock_timeout', %(timeout)s::text, TRUE)
