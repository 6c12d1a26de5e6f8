-- Optional, for routes that send an event to several destinations: a column with the names of those that have acknowledged
-- it while others have not, so that they do not get it again. Without it an event that one of them fails goes to all of
-- them again.
-- It is NULL for every other event, DELIVERED ones included; a DEAD event keeps it. Relays look for it when they start. A
-- relay's user needs UPDATE on it, besides the rights on the contract's columns.
-- To undo, once no relay that was started with it runs: ALTER TABLE openoutbox_events DROP COLUMN acknowledged_by.
-- Safe to run again. Locks: the whole table, for an instant: nothing is rewritten.
ALTER TABLE openoutbox_events ADD COLUMN IF NOT EXISTS acknowledged_by TEXT [];
