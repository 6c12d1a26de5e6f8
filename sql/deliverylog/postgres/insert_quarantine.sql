-- Keeps entries that could not be written.
INSERT INTO openoutbox_log.quarantine (reason, entry)
SELECT reason, entry
FROM unnest(%(reason)s::text [], %(entry)s::text []) AS given (reason, entry)
