-- How many events are leased just now, by all relays. Index: idx_openoutbox_stuck_leases, index-only. Locks: none.
SELECT COUNT(*) FROM openoutbox_events
WHERE status = 'DELIVERING'
