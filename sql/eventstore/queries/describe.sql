-- Whether row-level security hides events from this role: then a reader of all tenants would miss some in silence.
-- Fails where there is no store in the schema. Locks: nothing.
SELECT ROW_SECURITY_ACTIVE('public.event_feed') OR ROW_SECURITY_ACTIVE('public.event')
