"""The module in which Spark finds ``format("openoutbox_eventstore")`` automatically."""

from relay.spark.read.eventstore import EventStoreDataSource as DefaultSource

__all__ = ["DefaultSource"]
