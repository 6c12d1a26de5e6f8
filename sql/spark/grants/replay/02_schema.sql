-- The schema in which replays are recorded.
GRANT USAGE ON SCHEMA openoutbox_spark TO spark_role
