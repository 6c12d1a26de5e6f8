"""Where Spark looks for ``format("openoutbox_eventstore")`` by itself."""

from relay.spark.eventsource import EventStoreDataSource as DefaultSource

__all__ = ["DefaultSource"]
