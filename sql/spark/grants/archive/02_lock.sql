-- PostgreSQL wants the right to update some column before it lets a row be locked; none is updated.
GRANT UPDATE (updated_at) ON openoutbox_events TO spark_role
