"""Where Spark looks for ``format("openoutbox_events")`` by itself."""

from relay.spark.eventsource import EventStoreDataSource as DefaultSource

__all__ = ["DefaultSource"]
