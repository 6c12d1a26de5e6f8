-- name: attempts
-- The keys of a page of attempts: a range of one list, read in its order, with copies that are not merged yet. LIMIT BY
-- would take them out, but reads the list to its end. One range is said as a tuple: an owner of its own, where it is '',
-- becomes empty(owner), and then the server no longer knows that the list is in order, and sorts it.
-- The condition on the tuple alone is right, but prunes nothing; the plain one on the time does.
SELECT
    toUnixTimestamp64Milli(time) AS time_ms,
    id,
    tenant_id,
    destination_id,
    event_id,
    toUnixTimestamp64Milli(sort_time) AS sort_ms,
    sort_id
FROM event_log_attempts
WHERE
    (list, owner, value) = ({list:String}, {owner:String}, {value:String}) --? one
    -- list = {list:String} AND owner IN {owners:Array(String)} AND value IN {values:Array(String)} --? !one
    AND tenant_id IN {tenant_id:Array(String)} --? filter_tenant_id
    AND event_id IN {event_id:Array(String)} --? filter_event_id
    AND destination_id IN {destination_id:Array(String)} --? filter_destination_id
    AND destination_type IN {destination_type:Array(String)} --? filter_destination_type
    AND topic IN {topic:Array(String)} --? filter_topic
    AND time >= fromUnixTimestamp64Milli({gte:Int64}, 'UTC') --? gte
    AND time <= fromUnixTimestamp64Milli({lte:Int64}, 'UTC') --? lte
    AND time > fromUnixTimestamp64Milli({gt:Int64}, 'UTC') --? gt
    AND time < fromUnixTimestamp64Milli({lt:Int64}, 'UTC') --? lt
    AND sort_time <= fromUnixTimestamp64Milli({at:Int64}, 'UTC') --? after desc by_time
    AND (sort_time, sort_id) < (fromUnixTimestamp64Milli({at:Int64}, 'UTC'), {at_id:String}) --? after desc by_time !twin
    -- AND (sort_time, sort_id, tenant_id) < (fromUnixTimestamp64Milli({at:Int64}, 'UTC'), {at_id:String}, {at_tenant:String}) --? after desc by_time twin
    -- AND sort_time <= fromUnixTimestamp64Milli({at_event:Int64}, 'UTC') --? after desc by_event
    -- AND (sort_time, sort_id, time, id) < (fromUnixTimestamp64Milli({at_event:Int64}, 'UTC'), {at_event_id:String}, fromUnixTimestamp64Milli({at:Int64}, 'UTC'), {at_id:String}) --? after desc by_event !twin
    -- AND (sort_time, sort_id, time, id, tenant_id) < (fromUnixTimestamp64Milli({at_event:Int64}, 'UTC'), {at_event_id:String}, fromUnixTimestamp64Milli({at:Int64}, 'UTC'), {at_id:String}, {at_tenant:String}) --? after desc by_event twin
    -- AND sort_time >= fromUnixTimestamp64Milli({at:Int64}, 'UTC') --? after asc by_time
    -- AND (sort_time, sort_id) > (fromUnixTimestamp64Milli({at:Int64}, 'UTC'), {at_id:String}) --? after asc by_time !twin
    -- AND (sort_time, sort_id, tenant_id) > (fromUnixTimestamp64Milli({at:Int64}, 'UTC'), {at_id:String}, {at_tenant:String}) --? after asc by_time twin
    -- AND sort_time >= fromUnixTimestamp64Milli({at_event:Int64}, 'UTC') --? after asc by_event
    -- AND (sort_time, sort_id, time, id) > (fromUnixTimestamp64Milli({at_event:Int64}, 'UTC'), {at_event_id:String}, fromUnixTimestamp64Milli({at:Int64}, 'UTC'), {at_id:String}) --? after asc by_event !twin
    -- AND (sort_time, sort_id, time, id, tenant_id) > (fromUnixTimestamp64Milli({at_event:Int64}, 'UTC'), {at_event_id:String}, fromUnixTimestamp64Milli({at:Int64}, 'UTC'), {at_id:String}, {at_tenant:String}) --? after asc by_event twin
ORDER BY sort_time DESC, sort_id DESC, time DESC, id DESC, tenant_id DESC --? desc
-- ORDER BY sort_time, sort_id, time, id, tenant_id --? asc
LIMIT {fetch:UInt32};

-- name: events
-- The keys of a page of events: a range of one list, read in its order, with copies that are not merged yet, of which
-- that of the highest version stands for the event; to sort by it would mean to read far ahead. One range is said as a
-- tuple: see attempts.
SELECT
    toUnixTimestamp64Milli(time) AS time_ms,
    id,
    tenant_id,
    destination_id,
    sort_id AS event_id,
    toUnixTimestamp64Milli(sort_time) AS sort_ms,
    sort_id,
    version
FROM event_log_events
WHERE
    (list, owner, value) = ({list:String}, {owner:String}, {value:String}) --? one
    -- list = {list:String} AND owner IN {owners:Array(String)} AND value IN {values:Array(String)} --? !one
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
ORDER BY sort_time DESC, sort_id DESC, tenant_id DESC --? desc
-- ORDER BY sort_time, sort_id, tenant_id --? asc
LIMIT {fetch:UInt32};
