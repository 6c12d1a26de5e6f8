"""The delivery log in PostgreSQL.

``driver`` is the log, on ``connections`` with deadlines. ``inserts`` writes a batch, ``partitions`` makes months on
demand and drops them by retention; ``statements`` and ``planner`` read a page, ``rows`` is between both and the log.
"""
