-- Nothing: on a connection that opens its transactions by itself, any statement opens one. Locks: nothing.
SELECT 1
