"""Where Spark looks for ``format("openoutbox_eventstore")`` by itself."""

from relay.spark.read.eventstore import EventStoreDataSource as DefaultSource

__all__ = ["DefaultSource"]
