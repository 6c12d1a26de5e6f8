-- Whether the server answers and the table is there.
SELECT count() FROM event_log WHERE false
