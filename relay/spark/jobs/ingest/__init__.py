"""The job ``ingest``: files, a table or a stream into the outbox; ``shape`` makes events of the source's columns."""
