-- How many events are in which state; reads the whole table, which is small in a demonstration. Locks nothing.
SELECT
    status,
    count(*) AS events
FROM openoutbox_events
GROUP BY status;
