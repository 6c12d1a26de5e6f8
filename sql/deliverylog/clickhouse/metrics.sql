-- Metrics: the counts by slot and dimensions, and before them how many combinations of dimension values there are,
-- which decides whether the answer would be too large. Both have the same filters. The columns are read by their names.

-- name: count_events
-- Counts events by slot and dimensions from the list of all, or, where destinations matter, from the list by
-- destination: an event stands there for each it matched, once for each of its deliveries and for copies that are not
-- merged yet. So events are counted by a hash of their key; to group them first, in the order of the list, takes twice the
-- time, and is needed for their topic alone, which is that of the first copy.
-- The first copy also says which destinations an event matched: an entry of the list by destination counts when it has
-- the event's highest version, which the list of all has, read in its order.
SELECT
    {first:Int64} + intDiv(toUnixTimestamp64Milli(sort_time) - {first:Int64}, {width:Int64}) * {width:Int64} AS slot, --? uniform
    -- roundDown(toUnixTimestamp64Milli(sort_time), {begins:Array(Int64)}) AS slot, --? months
    tenant_id, --? by_tenant_id
    first_topic AS topic, --? by_topic
    value AS destination_id, --? by_destination_id
    uniqExact(cityHash64(value, sort_time, sort_id, tenant_id)) AS total --? !by_topic !filter_topic
    -- count() AS total --? by_topic|filter_topic
FROM (
    SELECT
        argMax(topic, version) AS first_topic, --? by_topic|filter_topic
        list,
        owner,
        value,
        sort_time,
        sort_id,
        tenant_id
    FROM event_log_events
    WHERE
        list = 'all' --? !by_destination_id !filter_destination_id
        -- list = 'destination_id' --? by_destination_id|filter_destination_id
        AND sort_time >= fromUnixTimestamp64Milli({start:Int64}, 'UTC') AND sort_time < fromUnixTimestamp64Milli({end:Int64}, 'UTC')
        AND tenant_id IN {tenant_id:Array(String)} --? filter_tenant_id
        AND value IN {destination_id:Array(String)} --? filter_destination_id
        AND cityHash64(sort_time, sort_id, tenant_id, version) IN ( --? by_destination_id|filter_destination_id
            SELECT cityHash64(sort_time, sort_id, tenant_id, max(version)) --? by_destination_id|filter_destination_id
            FROM event_log_events --? by_destination_id|filter_destination_id
            WHERE --? by_destination_id|filter_destination_id
                list = 'all' --? by_destination_id|filter_destination_id
                AND sort_time >= fromUnixTimestamp64Milli({start:Int64}, 'UTC') AND sort_time < fromUnixTimestamp64Milli({end:Int64}, 'UTC') --? by_destination_id|filter_destination_id
                AND tenant_id IN {tenant_id:Array(String)} --? filter_tenant_id by_destination_id|filter_destination_id
            GROUP BY list, owner, value, sort_time, sort_id, tenant_id --? by_destination_id|filter_destination_id
            SETTINGS optimize_aggregation_in_order = 1 --? by_destination_id|filter_destination_id
        ) --? by_destination_id|filter_destination_id
    GROUP BY list, owner, value, sort_time, sort_id, tenant_id --? by_topic|filter_topic
    SETTINGS optimize_aggregation_in_order = 1 --? by_topic|filter_topic
)
WHERE
    true
    AND first_topic IN {topic:Array(String)} --? filter_topic
GROUP BY
    slot, --? uniform|months
    tenant_id, --? by_tenant_id
    first_topic, --? by_topic
    value, --? by_destination_id
    'all';

-- name: combine_events
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
);

-- name: count_attempts
-- Counts attempts by slot and dimensions. FINAL, because a copy that is not merged yet must not count twice; copies
-- of one delivery are always in one partition, which spares merging across days.
SELECT
    {first:Int64} + intDiv(toUnixTimestamp64Milli(delivery_time) - {first:Int64}, {width:Int64}) * {width:Int64} AS slot, --? uniform
    -- roundDown(toUnixTimestamp64Milli(delivery_time), {begins:Array(Int64)}) AS slot, --? months
    tenant_id, --? by_tenant_id
    destination_id, --? by_destination_id
    destination_type, --? by_destination_type
    topic, --? by_topic
    status, --? by_status
    code, --? by_code
    manual, --? by_manual
    attempt_number, --? by_attempt_number
    count() AS total,
    countIf(status = 'success') AS successful,
    countIf(status = 'failed') AS failed,
    countIf(attempt_number = 1 AND NOT manual) AS first_attempts,
    countIf(attempt_number > 1) AS retries,
    countIf(manual) AS manual_retries,
    sum(attempt_number) AS number_sum
FROM event_log FINAL
WHERE
    delivery_time >= fromUnixTimestamp64Milli({start:Int64}, 'UTC') AND delivery_time < fromUnixTimestamp64Milli({end:Int64}, 'UTC')
    AND tenant_id IN {tenant_id:Array(String)} --? filter_tenant_id
    AND destination_id IN {destination_id:Array(String)} --? filter_destination_id
    AND destination_type IN {destination_type:Array(String)} --? filter_destination_type
    AND topic IN {topic:Array(String)} --? filter_topic
    AND status IN {status:Array(String)} --? filter_status
    AND code IN {code:Array(String)} --? filter_code
    AND manual IN {manual:Array(Bool)} --? filter_manual
    AND attempt_number IN {attempt_number:Array(UInt32)} --? filter_attempt_number
GROUP BY
    slot, --? uniform|months
    tenant_id, --? by_tenant_id
    destination_id, --? by_destination_id
    destination_type, --? by_destination_type
    topic, --? by_topic
    status, --? by_status
    code, --? by_code
    manual, --? by_manual
    attempt_number, --? by_attempt_number
    'all'
SETTINGS do_not_merge_across_partitions_select_final = 1;

-- name: combine_attempts
-- How many combinations of dimension values there are in a range, counted no further than the limit.
SELECT count()
FROM (
    SELECT DISTINCT
        tenant_id, --? by_tenant_id
        destination_id, --? by_destination_id
        destination_type, --? by_destination_type
        topic, --? by_topic
        status, --? by_status
        code, --? by_code
        manual, --? by_manual
        attempt_number, --? by_attempt_number
        'all'
    FROM event_log FINAL
    WHERE
        delivery_time >= fromUnixTimestamp64Milli({start:Int64}, 'UTC') AND delivery_time < fromUnixTimestamp64Milli({end:Int64}, 'UTC')
        AND tenant_id IN {tenant_id:Array(String)} --? filter_tenant_id
        AND destination_id IN {destination_id:Array(String)} --? filter_destination_id
        AND destination_type IN {destination_type:Array(String)} --? filter_destination_type
        AND topic IN {topic:Array(String)} --? filter_topic
        AND status IN {status:Array(String)} --? filter_status
        AND code IN {code:Array(String)} --? filter_code
        AND manual IN {manual:Array(Bool)} --? filter_manual
        AND attempt_number IN {attempt_number:Array(UInt32)} --? filter_attempt_number
    LIMIT {most:UInt32}
)
SETTINGS do_not_merge_across_partitions_select_final = 1;
