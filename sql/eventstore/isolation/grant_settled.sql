-- What the role needs: to draw positions and to see the last one drawn.
GRANT SELECT, USAGE ON SEQUENCE public.event_sequencenum_seq TO app_role
