-- Replays are recorded, and forgotten after 90 days.
GRANT SELECT, INSERT, DELETE ON openoutbox_spark.replays TO spark_role
