"""Where Spark looks for ``format("openoutbox")`` by itself."""

from relay.spark.source import OutboxDataSource as DefaultSource

__all__ = ["DefaultSource"]
