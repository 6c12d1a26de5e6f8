-- Whether an attempt of this tenant's event to this destination was made; one range of the list by event.
SELECT count() FROM (
    SELECT 1
    FROM event_log_attempts
    WHERE
        list = 'event_id' AND owner = '' AND value = {event_id:String}
        AND tenant_id = {tenant_id:String} AND destination_id = {destination_id:String}
    LIMIT 1
)
