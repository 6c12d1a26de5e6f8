-- Whether the log's tables answer and can be seen.
SELECT 1 FROM openoutbox_log.attempts WHERE false
