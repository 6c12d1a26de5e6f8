"""The module in which Spark finds ``format("openoutbox_eventstore")`` automatically.

What it may import is in ``relay.spark.lookup``.
"""

from relay.spark.lookup import LateSource

__all__ = ["DefaultSource"]


class DefaultSource(LateSource):
    """``relay.spark.read.eventstore.EventStoreDataSource``."""

    format = "openoutbox_eventstore"
    module = "read.eventstore"
    source = "EventStoreDataSource"
