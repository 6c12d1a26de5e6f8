"""Keep PostgreSQL's planner fast and right for a page.

A page is read from the few months that most likely hold all of it, so that the planner considers only their
partitions. Planning time grows with the number of partitions; for two years of months it is several times the
execution time. The driver reads these months first. When they do not fill the page it reads as many as should do, by
what it has read, and then all months: the result never depends on the guess.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Final

from relay.deliverylog.cursor import EVENTS
from relay.deliverylog.paging import Scan
from relay.deliverylog.postgres.partitions import month_after, month_of
from relay.deliverylog.times import from_ms

NEAREST: Final = 2
"""Months that are read first."""
_MARGIN: Final = 1.5  # months are not equally full


def near(scan: Scan, months: Collection[datetime], now: datetime, span: int = NEAREST) -> Scan | None:
    """The same page, bounded to ``span`` months: the one in which reading begins and those after it.

    ``months`` are those with partitions; some of them may lie ahead of ``now`` and be empty. Returns None
    when the bound would exclude no month, when pages are rarely full (of one event), and when a page may hold any month
    (by the events' times).
    """
    if not months or scan.sort_by != "time" or "event_id" in scan.filters:
        return None
    at = [] if scan.position is None else [from_ms(scan.position.ms)]
    after = [scan.window[name] for name in ("gte", "gt") if name in scan.window]
    before = [scan.window[name] for name in ("lte", "lt") if name in scan.window]
    if scan.descending:
        floor = month_after(month_of(min([max(months), now, *before, *at])), 1 - span)
        return _narrowed(scan, "gte", floor) if floor > max([min(months), *after]) else None
    ceiling = month_after(month_of(max([min(months), *after, *at])), span)
    return _narrowed(scan, "lt", ceiling) if ceiling < min([month_after(max(months)), *before]) else None


def wider(rows: int, fetch: int, months: Collection[datetime]) -> int:
    """How many months should hold a page of ``fetch`` rows, when the nearest hold ``rows``.

    0 when that is unknown, or so many that all months may be read at once.
    """
    span = math.ceil(_MARGIN * NEAREST * fetch / rows) if rows else 0
    return span if span * 2 <= len(months) else 0


def looks_large(scan: Scan) -> bool:
    """Whether the planner may compile the statement (JIT) because it overestimates the page.

    It does so for merged ranges, because a range's limit is hidden from it. Switching JIT off takes another statement
    in the transaction, about as long as a fast page, so it is switched off only then.
    """
    merged = any(len(values) > 1 for values in scan.filters.values())
    return merged or (scan.resource == EVENTS and "destination_id" in scan.filters)


def _narrowed(scan: Scan, bound: str, time: datetime) -> Scan:
    return replace(scan, window={**scan.window, bound: time})
