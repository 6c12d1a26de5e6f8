"""The module in which Spark finds ``format("openoutbox")`` automatically."""

from relay.spark.source import OutboxDataSource as DefaultSource

__all__ = ["DefaultSource"]
