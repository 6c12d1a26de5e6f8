"""The outbox table in PostgreSQL: the storage port of the engine, the schema, and the operations on it."""
