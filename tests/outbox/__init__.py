"""The outbox adapter against a real PostgreSQL."""
