"""The jobs that ``spark-submit`` and ``relay-cli spark`` run, a folder each, and what several of them share.

In a folder ``arguments`` describes the command line, and ``job.py`` runs. ``entry`` is the way into each of them,
``program`` its exit code and errors; ``outbox`` checks the rights, ``settled`` reads the rows, ``folder`` and
``parquet`` hold the files.
"""
