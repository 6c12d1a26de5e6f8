-- The reading statements of the three formats; each is sent inside copy_out.

-- name: describe_relation
-- A table for a reader: its kind (relkind, NULL for a missing table), which of the columns it lacks, whether this role may
-- read it, whether row-level security hides rows from it, and its size in pages. Parameters: relation, its quoted name; columns.
-- Catalog only, locks nothing.
SELECT
    relation.relkind::text,
    ARRAY(
        SELECT required.name
        FROM UNNEST(%(columns)s::text []) AS required (name)
        WHERE NOT EXISTS (
            SELECT 1
            FROM pg_catalog.pg_attribute AS attribute
            WHERE attribute.attrelid = relation.oid AND attribute.attname = required.name AND NOT attribute.attisdropped
        )
    ),
    COALESCE(HAS_TABLE_PRIVILEGE(relation.oid, 'SELECT'), FALSE),
    COALESCE(ROW_SECURITY_ACTIVE(relation.oid), FALSE),
    COALESCE(
        (
            PG_RELATION_SIZE(relation.oid)
            + (SELECT COALESCE(SUM(PG_RELATION_SIZE(part.inhrelid)), 0) FROM pg_catalog.pg_inherits AS part
               WHERE part.inhparent = relation.oid)
        ) / CURRENT_SETTING('block_size')::bigint,
        0
    )::bigint
FROM (SELECT 1 AS one) AS always
LEFT JOIN pg_catalog.pg_class AS relation ON relation.oid = TO_REGCLASS(%(relation)s::text);

-- name: read_events
-- Rows of the outbox for one of Spark's tasks: a range of the primary key or of pages, and the query's filters.
-- A parameter that is NULL sets no condition: bound by the client, it is a constant, and the planner drops it.
-- Index: the primary key for a range of ids, where the planner finds it cheaper than reading the table; the indexes of
-- pruning for delivered_at and updated_at with a status. Locks: ACCESS SHARE, which blocks no statement of the relay.
-- Tagged "sample": ids of a sample of these rows, from ``percent`` of the table's pages. The ranges are cut between
-- them, so that neither holes nor filters make one task's share larger than the others'. Index: none.
SELECT chosen_columns --? !sample
-- SELECT event_id --? sample
FROM openoutbox_events --? !sample
-- FROM openoutbox_events TABLESAMPLE SYSTEM (%(percent)s) --? sample
WHERE
    (%(range_from)s::uuid IS NULL OR event_id >= %(range_from)s::uuid) --? !sample
    AND (%(range_below)s::uuid IS NULL OR event_id < %(range_below)s::uuid) --? !sample
    AND (%(page_from)s::tid IS NULL OR ctid >= %(page_from)s::tid) --? !sample
    AND (%(page_below)s::tid IS NULL OR ctid < %(page_below)s::tid) --? !sample
    AND (%(event_id_in)s::uuid [] IS NULL OR event_id = ANY(%(event_id_in)s::uuid [])) --? !sample
    -- (%(event_id_in)s::uuid [] IS NULL OR event_id = ANY(%(event_id_in)s::uuid [])) --? sample
    AND (%(event_id_from)s::uuid IS NULL OR event_id >= %(event_id_from)s::uuid)
    AND (%(event_id_below)s::uuid IS NULL OR event_id < %(event_id_below)s::uuid)
    AND (%(status_in)s::text [] IS NULL OR status = ANY(%(status_in)s::text []))
    AND (%(status_not)s::text [] IS NULL OR status <> ALL(%(status_not)s::text []))
    AND (%(event_type_in)s::text [] IS NULL OR event_type = ANY(%(event_type_in)s::text []))
    AND (%(event_type_not)s::text [] IS NULL OR event_type <> ALL(%(event_type_not)s::text []))
    AND (%(event_type_prefix)s::text IS NULL OR STARTS_WITH(event_type, %(event_type_prefix)s::text))
    AND (%(partition_key_in)s::text [] IS NULL OR partition_key = ANY(%(partition_key_in)s::text []))
    AND (%(partition_key_not)s::text [] IS NULL OR partition_key <> ALL(%(partition_key_not)s::text []))
    AND (%(partition_key_null)s::boolean IS NULL OR (partition_key IS NULL) = %(partition_key_null)s::boolean)
    AND (%(created_at_from)s::timestamptz IS NULL OR created_at >= %(created_at_from)s::timestamptz)
    AND (%(created_at_below)s::timestamptz IS NULL OR created_at < %(created_at_below)s::timestamptz)
    AND (%(updated_at_from)s::timestamptz IS NULL OR updated_at >= %(updated_at_from)s::timestamptz)
    AND (%(updated_at_below)s::timestamptz IS NULL OR updated_at < %(updated_at_below)s::timestamptz)
    AND (%(available_at_from)s::timestamptz IS NULL OR available_at >= %(available_at_from)s::timestamptz)
    AND (%(available_at_below)s::timestamptz IS NULL OR available_at < %(available_at_below)s::timestamptz)
    AND (%(delivered_at_from)s::timestamptz IS NULL OR delivered_at >= %(delivered_at_from)s::timestamptz)
    AND (%(delivered_at_below)s::timestamptz IS NULL OR delivered_at < %(delivered_at_below)s::timestamptz)
    AND (%(delivered_at_null)s::boolean IS NULL OR (delivered_at IS NULL) = %(delivered_at_null)s::boolean)
-- ORDER BY event_id --? sample
;

-- name: read_deliveries
-- Attempts of the delivery log for one of Spark's tasks: a range of times, and the query's filters.
-- A parameter that is NULL sets no condition: bound by the client, it is a constant, and the planner drops it.
-- An event's topic and destination are stored only where they differ from the attempt's own.
-- Index: each month's primary key, by time; months outside the range are not read. Locks: ACCESS SHARE.
-- Tagged "sample": times of a sample of these attempts, from ``percent`` of the log's pages. Index: none.
SELECT chosen_columns --? !sample
FROM ( --? !sample
    SELECT --? !sample
        a.id, a.event_id, a.tenant_id, a.destination_id, a.destination_type, a.topic, a.status, a.time, --? !sample
        a.attempt_number, a.manual, a.code, a.response_data::text, a.event_time, --? !sample
        a.eligible_for_retry, a.event_data, a.event_metadata, --? !sample
        COALESCE(a.event_topic, a.topic) AS event_topic, --? !sample
        COALESCE(a.event_destination_id, a.destination_id) AS event_destination_id --? !sample
    FROM openoutbox_log.attempts AS a --? !sample
) AS attempt --? !sample
-- SELECT time --? sample
-- FROM openoutbox_log.attempts TABLESAMPLE SYSTEM (%(percent)s) --? sample
WHERE
    (%(range_from)s::timestamptz IS NULL OR time >= %(range_from)s::timestamptz) --? !sample
    AND (%(range_below)s::timestamptz IS NULL OR time < %(range_below)s::timestamptz) --? !sample
    AND (%(time_from)s::timestamptz IS NULL OR time >= %(time_from)s::timestamptz) --? !sample
    -- (%(time_from)s::timestamptz IS NULL OR time >= %(time_from)s::timestamptz) --? sample
    AND (%(time_below)s::timestamptz IS NULL OR time < %(time_below)s::timestamptz)
    AND (%(event_time_from)s::timestamptz IS NULL OR event_time >= %(event_time_from)s::timestamptz)
    AND (%(event_time_below)s::timestamptz IS NULL OR event_time < %(event_time_below)s::timestamptz)
    AND (%(status_in)s::text [] IS NULL OR status = ANY(%(status_in)s::text []))
    AND (%(status_not)s::text [] IS NULL OR status <> ALL(%(status_not)s::text []))
    AND (%(topic_in)s::text [] IS NULL OR topic = ANY(%(topic_in)s::text []))
    AND (%(topic_not)s::text [] IS NULL OR topic <> ALL(%(topic_not)s::text []))
    AND (%(topic_prefix)s::text IS NULL OR STARTS_WITH(topic, %(topic_prefix)s::text))
    AND (%(event_id_in)s::text [] IS NULL OR event_id = ANY(%(event_id_in)s::text []))
    AND (%(tenant_id_in)s::text [] IS NULL OR tenant_id = ANY(%(tenant_id_in)s::text []))
    AND (%(destination_id_in)s::text [] IS NULL OR destination_id = ANY(%(destination_id_in)s::text []))
-- ORDER BY time --? sample
;

-- name: copy_out
-- One of the reading statements as a binary stream. Locks: those of that statement.
COPY (SELECT chosen_rows) TO STDOUT WITH (FORMAT "binary");
