"""The delivery log in ClickHouse.

``driver`` is the log, with the TTL as its retention, on ``client``, which has the engine's errors; ``statements``
chooses the list that has a page's order, ``rows`` is between rows and the log.
"""
