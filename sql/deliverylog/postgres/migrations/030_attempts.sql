-- One row per attempt, in monthly partitions attempts_YYYY_MM by its time, with its event embedded: read without a
-- join. An event_ column that may be null is null where it equals the attempt's own (the common case, at no cost):
-- the topic, the destination, and the matched destinations where that one is the only one.
CREATE TABLE IF NOT EXISTS openoutbox_log.attempts (
    id text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    destination_id text COLLATE "C" NOT NULL,
    destination_type text COLLATE "C" NOT NULL,
    topic text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    time timestamptz NOT NULL,
    attempt_number integer NOT NULL,
    manual boolean NOT NULL DEFAULT false,
    code text,
    response_data json,
    event_time timestamptz NOT NULL,
    eligible_for_retry boolean NOT NULL,
    event_data bytea NOT NULL,
    event_metadata jsonb NOT NULL,
    event_topic text,
    event_destination_id text,
    event_matched_destination_ids text [],
    PRIMARY KEY (time, id, tenant_id)
) PARTITION BY RANGE (time)
