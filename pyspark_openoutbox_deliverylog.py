"""The module in which Spark finds ``format("openoutbox_deliverylog")`` automatically."""

from relay.spark.read.deliverylog import DeliveryLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
