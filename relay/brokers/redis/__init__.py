"""The publisher to Redis streams.

``nodes`` has a ``session`` for the first server and one for each node of a cluster in use, ``shards`` the nodes that do
not answer. ``servers`` reads PUBLISHER_URL and connects, ``sentinels`` hears of another primary. What one command is,
with MAXLEN and the WAIT behind it, and which payload is too large, stands in ``session``; ``arrived`` and ``bounded``
read replies.
"""
