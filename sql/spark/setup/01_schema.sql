-- A schema for Spark's ledger and its staging tables, apart from the outbox: the Spark role may create and drop tables
-- here and nowhere else. Locks: the new schema.
CREATE SCHEMA IF NOT EXISTS openoutbox_spark
