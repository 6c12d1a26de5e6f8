"""The publishers to Amazon SQS queues and SNS topics.

``session`` holds the requests in flight, which ``batching`` fills, for a FIFO queue or topic by group; ``services`` is
what differs between the two, ``names`` says which queue or topic an event type means, ``message`` what goes into it.
``client`` is one client of the SDK, with its timeouts and credentials; ``bounded`` and ``sockets`` are what the SDK's
HTTP client lacks. ``errors`` says whose fault a refusal is: throttling, or this host's clock, is not the event's.
"""
