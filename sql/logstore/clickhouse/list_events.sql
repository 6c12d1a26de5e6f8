-- The keys of a page of events: a range of one list, read in its order, each event once whatever is unmerged.
-- The first copy of an event stands for it: that of the highest version.
SELECT
    toUnixTimestamp64Milli(time) AS time_ms,
    id,
    tenant_id,
    destination_id,
    sort_id AS event_id,
    toUnixTimestamp64Milli(sort_time) AS sort_ms,
    sort_id
FROM event_log_events
WHERE
    list = {list:String}
    AND owner = {owner:String} --? one
    AND value = {value:String} --? one
    -- AND owner IN {owners:Array(String)} --? !one
    -- AND value IN {values:Array(String)} --? !one
    AND tenant_id IN {tenant_id:Array(String)} --? filter_tenant_id
    AND sort_id IN {event_id:Array(String)} --? filter_event_id
    AND topic IN {topic:Array(String)} --? filter_topic
    AND sort_time >= fromUnixTimestamp64Milli({gte:Int64}, 'UTC') --? gte
    AND sort_time <= fromUnixTimestamp64Milli({lte:Int64}, 'UTC') --? lte
    AND sort_time > fromUnixTimestamp64Milli({gt:Int64}, 'UTC') --? gt
    AND sort_time < fromUnixTimestamp64Milli({lt:Int64}, 'UTC') --? lt
    AND sort_time <= fromUnixTimestamp64Milli({at:Int64}, 'UTC') --? after desc
    AND (sort_time, sort_id) < (fromUnixTimestamp64Milli({at:Int64}, 'UTC'), {at_id:String}) --? after desc !twin
    -- AND (sort_time, sort_id, tenant_id) < (fromUnixTimestamp64Milli({at:Int64}, 'UTC'), {at_id:String}, {at_tenant:String}) --? after desc twin
    -- AND sort_time >= fromUnixTimestamp64Milli({at:Int64}, 'UTC') --? after asc
    -- AND (sort_time, sort_id) > (fromUnixTimestamp64Milli({at:Int64}, 'UTC'), {at_id:String}) --? after asc !twin
    -- AND (sort_time, sort_id, tenant_id) > (fromUnixTimestamp64Milli({at:Int64}, 'UTC'), {at_id:String}, {at_tenant:String}) --? after asc twin
ORDER BY sort_time DESC, sort_id DESC, tenant_id DESC, version DESC --? desc
-- ORDER BY sort_time, sort_id, tenant_id, version DESC --? asc
LIMIT 1 BY sort_time, sort_id, tenant_id
LIMIT {fetch:UInt32}
