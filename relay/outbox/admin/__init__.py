"""What an operator does to the outbox, one module each: ``prune``, ``browse``, ``replay``, ``pause``, ``relays``.

``why`` says why one event waits, ``trouble`` and ``causes`` what is broken; ``outbox_check`` is for a start.
Called by ``relay-cli`` and the console, never by the relay. Each function opens a connection of its own, changes rows
only in bounded batches that each are their own short transaction, and raises the errors of ``relay.core.errors``.
"""
