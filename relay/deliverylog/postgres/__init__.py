"""The delivery log in PostgreSQL."""
