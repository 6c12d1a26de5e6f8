"""The delivery log in PostgreSQL.

``driver`` is the log, on ``connections`` with deadlines. ``inserts`` writes a batch, ``partitions`` makes months ahead
and on demand and drops them by retention, ``migration_list`` has the tables' history. To read a page ``statements``
chooses the index, ``planner`` the months; ``rows`` is between the database and the log.
"""
