-- Forget the list entries of deliveries older than the given days.
ALTER TABLE event_log_lists MODIFY TTL toDateTime(time) + toIntervalDay(30)
SETTINGS mutations_sync = 1
