-- The quarantine: entries that could not be written, for an operator. An entry's id is the MD5 of its text.

-- name: add
-- Stores entries that could not be written, equal ones once: a batch that is written again quarantines the same ones.
-- Index: idx_quarantine_entry. Locks: the new rows.
INSERT INTO openoutbox_log.quarantine (reason, entry)
SELECT min(batch.reason), batch.entry
FROM unnest(%(reason)s::text [], %(entry)s::text []) WITH ORDINALITY AS batch (reason, entry, number)
WHERE
    NOT EXISTS (
        SELECT 1 FROM openoutbox_log.quarantine AS known
        WHERE md5(known.entry) = md5(batch.entry) AND known.entry = batch.entry
    )
GROUP BY batch.entry
ORDER BY min(batch.number);

-- name: list
-- Entries in the order in which they were quarantined.
SELECT
    md5(q.entry) AS id,
    q.quarantined_at,
    q.reason,
    q.entry
FROM openoutbox_log.quarantine AS q
WHERE (q.quarantined_at, md5(q.entry)) > (%(after_time)s, %(after_id)s) --? after
ORDER BY q.quarantined_at, md5(q.entry)
LIMIT %(most)s;

-- name: forget
-- Deletes entries by their ids. Index: idx_quarantine_entry. Locks: the rows deleted.
DELETE FROM openoutbox_log.quarantine WHERE md5(entry) = ANY(%(ids)s::text []);

-- name: purge
-- Deletes the entries that were quarantined at or before an instant. Locks: the rows deleted.
DELETE FROM openoutbox_log.quarantine WHERE quarantined_at <= %(before)s;
