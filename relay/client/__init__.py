"""What an application imports: build events and insert them in its own transaction."""
