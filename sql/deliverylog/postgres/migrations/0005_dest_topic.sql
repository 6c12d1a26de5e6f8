-- An index of the attempts of a destination and a topic, whether they ever met or not. It locks writes to the attempts while
-- it is built: recorders wait, and their queue fills.

-- name: idx_attempts_dest_topic_time
-- Serves: all tenants' attempts to a destination with a topic.
CREATE INDEX IF NOT EXISTS idx_attempts_dest_topic_time
ON openoutbox_log.attempts (destination_id, topic, time DESC, id DESC);
