-- Does the server answer, and does it take writes? Touches no table, locks nothing.
SELECT PG_IS_IN_RECOVERY() OR CURRENT_SETTING('transaction_read_only')::boolean
