-- One call a statement, on the parent only: nothing to clone into each tenant's partition.
-- Locks: the parent against writers, for an instant.
CREATE OR REPLACE TRIGGER trg_EventFeed AFTER INSERT ON public.event
REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION public.event_feed_inserted()
