"""What an operator does to the outbox, one module each: prune, browse, replay, pause, fleet, check.

Called by ``relay-cli``, never by the relay. Each function opens a connection of its own, changes rows only in bounded
batches that each are their own short transaction, and raises the errors of ``relay.core.errors``.
"""
