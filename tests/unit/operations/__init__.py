"""The operations, as far as they need no database."""
