"""The outbox table in PostgreSQL: connections, statements and the meaning of SQLSTATEs."""
