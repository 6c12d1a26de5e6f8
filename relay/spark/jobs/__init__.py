"""The jobs that ``spark-submit`` and ``relay-cli spark`` run, a folder each, and what several of them share.

In a folder ``arguments`` describes the command line, by the ``arguments`` of this room, and ``job.py`` runs. The order
of the steps, and why a crash loses nothing, are in ``archive/steps.py`` and ``replay/steps.py``. ``entry`` is the way
into each job, ``program`` its exit code and errors, ``session`` its Spark; ``outbox`` checks the rights, ``settled``
reads the rows, ``folder`` and ``parquet`` hold the files.
"""
