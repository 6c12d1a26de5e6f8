-- One archiving of an outbox at a time, until the transaction ends; it may last as long as the job does.
-- Result: whether the lock was taken, and two settings that do not matter. Locks: one advisory lock, made of "arch" in
-- ASCII and the table's oid. Parameters: outbox, its quoted name.
SELECT
    PG_TRY_ADVISORY_XACT_LOCK((1634886504::bigint << 32) | TO_REGCLASS(%(outbox)s::text)::oid::bigint),
    SET_CONFIG('idle_in_transaction_session_timeout', '0', TRUE),
    CASE
        WHEN CURRENT_SETTING('transaction_timeout', TRUE) IS NOT NULL THEN SET_CONFIG('transaction_timeout', '0', TRUE)
    END
