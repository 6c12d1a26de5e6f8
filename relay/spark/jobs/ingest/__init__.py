"""The job ``ingest``: files, a table or a stream into the outbox."""
