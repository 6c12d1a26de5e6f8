"""Where Spark looks for ``format("openoutbox_deliveries")`` by itself."""

from relay.spark.deliverysource import DeliveryLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
