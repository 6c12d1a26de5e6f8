"""The publisher to NATS JetStream.

``options`` reads PUBLISHER_URL, with user, password or token; ``identity`` is login by key. ``client`` is nats-py with
what it lacks, ``acknowledgements`` its shorter way for answers. ``session`` refuses what the server's max_payload does
not take; ``streams`` is for ``relay-cli``.
"""
