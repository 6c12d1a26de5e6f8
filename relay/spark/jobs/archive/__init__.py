"""The job ``archive``: delivered and dead events from the outbox to Parquet files."""
