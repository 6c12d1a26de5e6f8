-- Staging tables are made and dropped by the role itself, in this schema only.
GRANT USAGE, CREATE ON SCHEMA openoutbox_spark TO spark_role
