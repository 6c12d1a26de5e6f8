-- The database's clock. Touches no table. Result: the time.
SELECT NOW()
