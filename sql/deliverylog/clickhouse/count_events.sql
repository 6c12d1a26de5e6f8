-- Counts events by slot and dimensions from the list of all, or, where destinations matter, from the list by
-- destination: an event stands there once for each it matched.
SELECT
    {first:Int64} + intDiv(toUnixTimestamp64Milli(sort_time) - {first:Int64}, {width:Int64}) * {width:Int64} AS slot, --? uniform
    -- roundDown(toUnixTimestamp64Milli(sort_time), {begins:Array(Int64)}) AS slot, --? months
    tenant_id, --? by_tenant_id
    topic, --? by_topic
    value, --? by_destination_id
    count() AS total
FROM event_log_events FINAL
WHERE
    list = 'all' --? !by_destination_id !filter_destination_id
    -- list = 'destination_id' --? by_destination_id|filter_destination_id
    AND sort_time >= fromUnixTimestamp64Milli({start:Int64}, 'UTC') AND sort_time < fromUnixTimestamp64Milli({end:Int64}, 'UTC')
    AND tenant_id IN {tenant_id:Array(String)} --? filter_tenant_id
    AND topic IN {topic:Array(String)} --? filter_topic
    AND value IN {destination_id:Array(String)} --? filter_destination_id
GROUP BY
    slot, --? uniform|months
    tenant_id, --? by_tenant_id
    topic, --? by_topic
    value, --? by_destination_id
    'all'
