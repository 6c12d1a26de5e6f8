"""What the planner would get wrong about a page, and how it is helped.

A page is looked for in the few months in which it most likely lies whole, so that not all of them are planned over.
Planning costs as much for each partition as for the next one, and for two years of months several times what running
the statement does. The driver asks for a page among these months first, and among all only where it is not full: what
is found never depends on the guess.
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
    """The same page, read no further than through the month after that where reading begins.

    ``months`` are those with partitions; some of them may lie ahead of ``now`` and be empty. None where it would spare
    nothing, and where a page is not full as a rule (of one event) or may hold any month (by the events' times).
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
    """Whether the planner may take the page for a statement that is worth compiling.

    It does so where ranges are merged, because a range's limit is hidden from it. Forbidding it takes another statement
    in a transaction, about as long as a fast page, so it is forbidden only then.
    """
    merged = any(len(values) > 1 for values in scan.filters.values())
    return merged or (scan.resource == EVENTS and "destination_id" in scan.filters)


def _narrowed(scan: Scan, bound: str, time: datetime) -> Scan:
    return replace(scan, window={**scan.window, bound: time})
