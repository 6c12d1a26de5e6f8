-- Switches the notifications on. Locks: the parent against writers, for an instant.
CREATE OR REPLACE TRIGGER trg_EventRecorded AFTER INSERT ON public.event
REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION public.NotifyEvent()
