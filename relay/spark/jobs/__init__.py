"""The jobs that ``spark-submit`` and ``relay-cli spark`` run, a folder each, and what several of them share.

In a folder NAME ``arguments`` describes the command line as ``NameArguments``, by the ``arguments`` of this room, and
``job.py`` runs it. ``entry`` finds both by the name; ``deploy/spark/NAME.py`` and ``SparkJob`` of ``relay-cli spark``
call it. The order of the steps, and why a crash loses nothing, are in ``archive/steps.py`` and ``replay/steps.py``.

``program`` has exit codes, errors and output, ``session`` opens Spark, ``submit`` makes the line of spark-submit.
``outbox`` checks the rights on the table, ``settled`` reads its settled rows, ``measures`` has latencies and hours.
``parquet`` writes rows, ``folder`` small files, by Hadoop (``hadoopfiles``) or on Spark Connect (``sparkfiles``).
"""
