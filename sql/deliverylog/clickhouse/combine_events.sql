-- How many combinations of dimension values there are in a range, counted no further than the limit.
SELECT count()
FROM (
    SELECT DISTINCT
        tenant_id, --? by_tenant_id
        topic, --? by_topic
        value, --? by_destination_id
        'all'
    FROM event_log_events
    WHERE
        list = 'all' --? !by_destination_id !filter_destination_id
        -- list = 'destination_id' --? by_destination_id|filter_destination_id
        AND sort_time >= fromUnixTimestamp64Milli({start:Int64}, 'UTC') AND sort_time < fromUnixTimestamp64Milli({end:Int64}, 'UTC')
        AND tenant_id IN {tenant_id:Array(String)} --? filter_tenant_id
        AND topic IN {topic:Array(String)} --? filter_topic
        AND value IN {destination_id:Array(String)} --? filter_destination_id
    LIMIT {most:UInt32}
)
