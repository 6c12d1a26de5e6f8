"""Keep PostgreSQL's planner fast and right for a page.

A page is read from the few months that most likely hold all of it, so that the planner considers only their
partitions. Planning time grows with the number of partitions; for two years of months it is several times the
execution time. The driver reads these months first, and all months when they do not fill the page: the result never
depends on the guess.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from relay.deliverylog.cursor import EVENTS
from relay.deliverylog.paging import Scan
from relay.deliverylog.postgres.partitions import month_after, month_of
from relay.deliverylog.times import from_ms


def near(scan: Scan, months: Collection[datetime], now: datetime) -> Scan | None:
    """The same page, bounded to the month in which reading begins and the one after it.

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
        floor = month_after(month_of(min([max(months), now, *before, *at])), -1)
        return _narrowed(scan, "gte", floor) if floor > max([min(months), *after]) else None
    ceiling = month_after(month_of(max([min(months), *after, *at])), 2)
    return _narrowed(scan, "lt", ceiling) if ceiling < min([month_after(max(months)), *before]) else None


def looks_large(scan: Scan) -> bool:
    """Whether the planner may compile the statement (JIT) because it overestimates the page.

    It does so for merged ranges, because a range's limit is hidden from it. Switching JIT off takes another statement
    in the transaction, about as long as a fast page, so it is switched off only then.
    """
    merged = any(len(values) > 1 for values in scan.filters.values())
    return merged or (scan.resource == EVENTS and "destination_id" in scan.filters)


def _narrowed(scan: Scan, bound: str, time: datetime) -> Scan:
    return replace(scan, window={**scan.window, bound: time})
