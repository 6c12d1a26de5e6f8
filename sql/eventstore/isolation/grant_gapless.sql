-- What the role needs: to read how far positions have committed.
GRANT SELECT ON public.event_position TO app_role
