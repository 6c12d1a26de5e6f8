-- Notifications of new events.

-- name: on
-- Switches the notifications on. Locks: the parent against writers, for an instant.
CREATE OR REPLACE TRIGGER trg_EventRecorded AFTER INSERT ON public.event
REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION public.NotifyEvent();

-- name: off
-- Switches the notifications off. Locks: the parent, exclusively, for an instant.
DROP TRIGGER IF EXISTS trg_EventRecorded ON public.event;

-- name: listen
-- Subscribes this connection to the notifications of new events; one channel serves all stores of the database.
LISTEN eventrecorded;
