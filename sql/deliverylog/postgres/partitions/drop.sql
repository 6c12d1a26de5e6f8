-- Drops a month that was detached before; nobody can be reading it any more.
DROP TABLE IF EXISTS openoutbox_log.events_2000_01
