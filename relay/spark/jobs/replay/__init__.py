"""The job ``replay``: copies of events from an archive, or from the table, into the outbox."""
