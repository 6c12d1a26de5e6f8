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
SETTINGS do_not_merge_across_partitions_select_final = 1
