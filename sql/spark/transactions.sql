-- The beginning of every transaction of Spark's writers, readers and jobs.

-- name: own_settings
-- For this transaction, in place of what the role, the database or the URL sets: Spark computes between two statements and
-- inside a COPY, so no timeout of the server's may count that. The server notices within a minute when the machine at the
-- other end is gone, so that the next attempt need not wait for its rows.
-- Tagged "reads": a statement from which row-level security would hide rows fails, instead of returning the rest. No
-- snapshot is taken, so that one can be adopted afterwards.
-- One that writes is durable when it is committed, whatever the default: Spark does not come back to it after a crash.
SET LOCAL statement_timeout = 0;
SET LOCAL lock_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = 0;
-- SET LOCAL transaction_timeout = 0; --? since_17
-- SET LOCAL row_security = OFF; --? reads
SET LOCAL tcp_keepalives_idle = 30;
SET LOCAL tcp_keepalives_interval = 10;
SET LOCAL tcp_keepalives_count = 3;
SELECT SET_CONFIG('synchronous_commit', 'on', TRUE) WHERE CURRENT_SETTING('synchronous_commit') = 'off'; --? !reads
