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

-- name: prepared
-- The same; and where no pooler stands between, so that the process of the protocol's key data answers: statements of this
-- session are planned once, for all parameters. Statements with the tag prepared undo all of it for their transaction.
-- A plan that is kept must be right whatever the table becomes: one that is made while the table is small would read all of it
-- once it has grown, until it is analyzed. Tag walk, for claims, is outbox/claim:guard. Touches no table.
-- Parameters: process. Result: the level, and what was set; NULL behind a pooler.
SELECT
    CURRENT_SETTING('default_transaction_isolation') AS level,
    CASE
        WHEN PG_BACKEND_PID() = %(process)s::bigint
            THEN
                SET_CONFIG('plan_cache_mode', 'force_generic_plan', FALSE)
                || SET_CONFIG('enable_seqscan', 'off', FALSE)
                || SET_CONFIG('enable_sort', 'off', FALSE) --? walk
                || SET_CONFIG('jit', 'off', FALSE) --? walk
    END AS settings;

-- name: keep_plans
-- For a transaction: the statements after it that are prepared are planned as session:prepared says, where a statement before has
-- undone that. Local to the transaction; touches no table. Parameters: none.
SELECT
    SET_CONFIG('plan_cache_mode', 'force_generic_plan', TRUE),
    SET_CONFIG('enable_seqscan', 'off', TRUE);

-- name: clock
-- The database's clock. Touches no table. Result: the time.
SELECT NOW();

-- name: lock_guard
-- Bounds the wait for a lock until the transaction ends: the session that changes the table goes first. Touches no table.
-- Parameters: timeout (text, milliseconds).
SELECT SET_CONFIG('lock_timeout', %(timeout)s::text, TRUE);
