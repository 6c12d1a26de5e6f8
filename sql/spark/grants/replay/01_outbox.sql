-- What the replay's role needs on the outbox: to read events, to insert their copies, and to delete what these replace.
GRANT SELECT, INSERT, DELETE ON openoutbox_events TO spark_role
