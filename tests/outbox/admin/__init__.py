"""The operations on a real PostgreSQL."""
