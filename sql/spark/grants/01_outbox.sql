-- What a Spark role needs on the outbox: to add rows. It can neither read nor change any.
GRANT INSERT ON openoutbox_events TO spark_role
