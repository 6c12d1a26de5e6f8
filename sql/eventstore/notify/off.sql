-- Switches the notifications off. Locks: the parent, exclusively, for an instant.
DROP TRIGGER IF EXISTS trg_EventRecorded ON public.event
