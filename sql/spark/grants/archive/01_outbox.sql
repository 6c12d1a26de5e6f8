-- What the archive's role needs on the outbox: to read rows, and to delete those that are archived.
GRANT SELECT, DELETE ON openoutbox_events TO spark_role
