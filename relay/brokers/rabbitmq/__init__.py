"""The publisher to RabbitMQ.

``session`` has the messages without a confirm; ``wire`` is the connection below it: login, heartbeats, confirms,
returned messages and a server that blocks. ``frames`` writes messages.
"""
