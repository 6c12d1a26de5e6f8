-- A task's rows straight into the outbox (commit=partition).

-- name: copy_events
-- A task's rows straight into the outbox. Fails as a whole when one event_id exists already.
-- Index: the outbox's primary key. Locks: the new rows.
COPY openoutbox_events (event_id, event_type, partition_key, payload, headers, available_at)
FROM STDIN WITH (FORMAT "binary");

-- name: create_repeat
-- A table for rows that may exist already: a repeated task, or two rows with one event_id. Dropped with the transaction.
-- Needs the right to create temporary tables, which every role has unless it was revoked.
CREATE TEMPORARY TABLE IF NOT EXISTS openoutbox_spark_repeat (
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    event_id UUID NOT NULL,
    event_type TEXT NOT NULL,
    partition_key TEXT,
    payload BYTEA NOT NULL,
    headers JSONB NOT NULL,
    available_at TIMESTAMPTZ NOT NULL
) ON COMMIT DROP;

-- name: copy_repeat
-- Rows that may exist already. Locks: this session's own table.
COPY pg_temp.openoutbox_spark_repeat (event_id, event_type, partition_key, payload, headers, available_at)
FROM STDIN WITH (FORMAT "binary");

-- name: insert_repeat
-- Inserts the rows of that table that do not exist yet, in their order. Naming no column in ON CONFLICT, it needs no right
-- to read. Index: the outbox's primary key. Locks: the new rows; waits for an attempt in flight that inserts the same ids.
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, available_at)
SELECT
    repeated.event_id,
    repeated.event_type,
    repeated.partition_key,
    repeated.payload,
    repeated.headers,
    repeated.available_at
FROM pg_temp.openoutbox_spark_repeat AS repeated
ORDER BY repeated.number
ON CONFLICT DO NOTHING;

-- name: others_repeat
-- Of these rows some whose ids are in the outbox with another type or payload (FALSE), or not any more (NULL).
-- Index: the outbox's primary key. Locks: nothing.
SELECT
    repeated.event_id::text,
    openoutbox_same(repeated.event_id, repeated.event_type, SHA256(repeated.payload)) AS same
FROM pg_temp.openoutbox_spark_repeat AS repeated
WHERE openoutbox_same(repeated.event_id, repeated.event_type, SHA256(repeated.payload)) IS NOT TRUE
LIMIT 3;

-- name: may_compare
-- Whether this role may call the function of migrate --with sql-api that compares. Catalog only. Locks: nothing.
SELECT COALESCE(
    HAS_FUNCTION_PRIVILEGE(TO_REGPROCEDURE($name$openoutbox_same(uuid, text, bytea)$name$), 'EXECUTE'), FALSE
);

-- name: empty_repeat
-- Empties the table for the next rows. Locks: this session's own table.
TRUNCATE pg_temp.openoutbox_spark_repeat;
