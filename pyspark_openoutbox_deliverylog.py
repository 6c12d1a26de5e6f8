"""Where Spark looks for ``format("openoutbox_deliverylog")`` by itself."""

from relay.spark.read.deliverylog import DeliveryLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
