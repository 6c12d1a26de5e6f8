-- Bounds the time for which a renewal's transaction may sit between its UPDATE and its COMMIT, so that a relay that
-- vanishes there does not hold its rows locked. Local to the transaction; touches no table.
-- Parameters: timeout (text, milliseconds).
SELECT SET_CONFIG('idle_in_transaction_session_timeout', %(timeout)s::text, TRUE)
