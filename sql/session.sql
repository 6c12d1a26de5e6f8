-- What any session may be sent, whatever it works on.

-- name: ping
-- Does the server answer, and does it take writes? Touches no table, locks nothing.
SELECT PG_IS_IN_RECOVERY() OR CURRENT_SETTING('transaction_read_only')::boolean;

-- name: jit_off
-- For a transaction whose statements have limits that the planner does not know: it takes each for a tenth of what is
-- there, a statement worth compiling, and compiling takes a hundred times longer than running it. Local to the
-- transaction; touches no table. Parameters: none.
SELECT SET_CONFIG('jit', 'off', TRUE);

-- name: default_isolation
-- The isolation level of a transaction that names none. Touches no table. Parameters: none. Result: the level.
SELECT CURRENT_SETTING('default_transaction_isolation');

-- name: clock
-- The database's clock. Touches no table. Result: the time.
SELECT NOW();

-- name: lock_guard
-- Bounds the wait for a lock until the transaction ends: the session that changes the table goes first. Touches no table.
-- Parameters: timeout (text, milliseconds).
SELECT SET_CONFIG('lock_timeout', %(timeout)s::text, TRUE);
