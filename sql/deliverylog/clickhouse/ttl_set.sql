-- Forget deliveries older than the given days. Existing rows are dealt with before this returns.
ALTER TABLE event_log MODIFY TTL toDateTime(delivery_time) + toIntervalDay(30)
SETTINGS mutations_sync = 1
