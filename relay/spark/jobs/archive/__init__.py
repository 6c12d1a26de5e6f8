"""The job ``archive``: delivered and dead events from the outbox to Parquet files or tables, and their reader.

``steps`` is a run, ``lock`` makes it the only one, ``delete`` takes its rows out of the outbox. ``formats`` opens and
reads an archive: ``files`` (Parquet, by the manifests of ``ledger``) or ``tables`` (over ``delta`` or ``iceberg``).
``model`` has the columns of a row, ``record`` says of which outbox and format an archive in a folder is.
"""
