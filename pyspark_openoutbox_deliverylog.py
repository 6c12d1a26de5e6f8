"""The module in which Spark finds ``format("openoutbox_deliverylog")`` automatically.

What it may import is in ``relay.spark.lookup``.
"""

from relay.spark.lookup import LateSource

__all__ = ["DefaultSource"]


class DefaultSource(LateSource):
    """``relay.spark.read.deliverylog.DeliveryLogDataSource``."""

    format = "openoutbox_deliverylog"
    module = "read.deliverylog"
    source = "DeliveryLogDataSource"
