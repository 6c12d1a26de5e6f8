"""The bounds of a read: they hold for every driver, and keep a dashboard from hurting the log's database."""

from __future__ import annotations

from typing import Final

from relay.core.durations import in_words
from relay.deliverylog.errors import ResourceLimit

LONGEST_PAGE: Final = 5.0
"""Seconds that the database may take for a page, or for one event or attempt."""
MOST_PAGE_BYTES: Final = 16 * 2**20
"""Bytes of payloads, metadata and response data that end a page; it has at least one row."""
MOST_VALUES: Final = 100
"""Alternatives of one filter."""
LONGEST_METRICS: Final = 30.0
"""Seconds that the database may take to count."""


def too_slow(seconds: float) -> ResourceLimit:
    """The error for a query that the database did not answer within ``seconds``."""
    return ResourceLimit(
        f"the query took longer than {in_words(seconds)} and was cancelled; "
        "choose a shorter time range, or filter by tenant, event, destination or topic"
    )


def check_values(name: str, count: int) -> None:
    """Raise ResourceLimit for a filter with too many values."""
    if count > MOST_VALUES:
        raise ResourceLimit(f"the filter {name} has {count} values; name at most {MOST_VALUES} in one query")
