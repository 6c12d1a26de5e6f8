-- Records events of a replay that it has not inserted yet, and that the broker would not drop as repeated: those are
-- left to a later run. Waits for another attempt at the same events, and then finds them recorded.
-- Index: the primary key. Locks: the new rows. Parameters: replay_id, window (seconds), and arrays of one length: ids,
-- times (when each was delivered, or NULL). Result: the ids that are new.
INSERT INTO openoutbox_spark.replayed (replay_id, event_id)
SELECT
    %(replay_id)s::uuid,
    given.event_id
FROM UNNEST(%(ids)s::uuid [], %(times)s::timestamptz []) AS given (event_id, delivered_at)
WHERE given.delivered_at IS NULL OR given.delivered_at <= NOW() - MAKE_INTERVAL(secs => %(window)s)
ORDER BY given.event_id
ON CONFLICT DO NOTHING
RETURNING event_id::text
