-- What the role needs: to read the feed and the store's settings.
GRANT SELECT ON public.event_feed, public.event_store TO app_role
