"""The module in which Spark finds ``format("openoutbox")`` automatically.

What it may import is in ``relay.spark.lookup``.
"""

from relay.spark.lookup import LateSource

__all__ = ["DefaultSource"]


class DefaultSource(LateSource):
    """``relay.spark.source.OutboxDataSource``."""

    format = "openoutbox"
    module = "source"
    source = "OutboxDataSource"
