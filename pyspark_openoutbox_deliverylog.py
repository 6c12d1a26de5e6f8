"""Where Spark looks for ``format("openoutbox_deliverylog")`` by itself."""

from relay.spark.deliverysource import DeliveryLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
