"""The delivery log in ClickHouse.

``driver`` is the log, with the TTL as its retention, on ``client``, which has the engine's errors. ``statements``
chooses the list that has a page's order (views fill the lists: ``sql/deliverylog/clickhouse/migrations``), ``rows`` is
between the database and the log, and says which copy of an event counts. ``migration_list`` has the tables' history.
"""
