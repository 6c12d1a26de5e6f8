-- Ends a detach that was interrupted.
ALTER TABLE openoutbox_log.events DETACH PARTITION openoutbox_log.events_2000_01 FINALIZE -- noqa: PRS
