-- For this transaction: the server notices within a minute when the executor's machine is gone, and ends it, so that the
-- next attempt need not wait for its rows. Result: the transaction's time in microseconds since 2000.
SELECT
    SET_CONFIG('tcp_keepalives_idle', '30', TRUE),
    SET_CONFIG('tcp_keepalives_interval', '10', TRUE),
    SET_CONFIG('tcp_keepalives_count', '3', TRUE),
    (EXTRACT(EPOCH FROM NOW() - TIMESTAMPTZ '2000-01-01 00:00:00+00') * 1000000)::bigint
