-- So are the events that each has inserted.
GRANT SELECT, INSERT, DELETE ON openoutbox_spark.replayed TO spark_role
