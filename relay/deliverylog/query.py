"""The queries of the delivery log. Frozen, keyword arguments; an absent filter, None and [] mean the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")

DEFAULT_LIMIT = 100
MOST_LIMIT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """Bounds on the time of a row, in any combination: ``gte`` and ``lte`` inclusive, ``gt`` and ``lt`` exclusive.

    Bounds are floored to milliseconds as rows are, so a row matches the exact time that it was written with.
    """

    gte: datetime | None = None
    lte: datetime | None = None
    gt: datetime | None = None
    lt: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListEvents:
    """Filters, order and page of a listing of events. Values of one filter are alternatives; filters add up."""

    tenant_ids: Sequence[str] | None = None
    """None: all tenants, an operator's view."""
    event_ids: Sequence[str] | None = None
    destination_ids: Sequence[str] | None = None
    """Events matched to at least one of these."""
    topics: Sequence[str] | None = None
    time: TimeWindow | None = None
    limit: int | None = None
    """Absent, 0 or negative: 100; at most 1000."""
    order: str = "desc"
    next: str | None = None
    prev: str | None = None
    include_data: bool = True
    """Whether the payloads are read; without them ``data`` is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListAttempts:
    """Filters, order and page of a listing of attempts. ``sort_by`` is ``time`` or ``event_time``."""

    tenant_ids: Sequence[str] | None = None
    event_ids: Sequence[str] | None = None
    destination_ids: Sequence[str] | None = None
    destination_types: Sequence[str] | None = None
    status: str | Sequence[str] | None = None
    topics: Sequence[str] | None = None
    codes: Sequence[str] | None = None
    """The broker's error names; attempts without a code have none."""
    time: TimeWindow | None = None
    limit: int | None = None
    order: str = "desc"
    sort_by: str = "time"
    next: str | None = None
    prev: str | None = None
    include_data: bool = True


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """One page of a listing and the cursors of its neighbours."""

    items: list[Item]
    next: str | None = None
    prev: str | None = None


@dataclass(frozen=True, slots=True)
class Granularity:
    """The width of a bucket: 1..60 s, 1..60 m, 1..24 h, 1..31 d, 1..4 w, 1..12 M (months)."""

    value: int
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsQuery:
    """What to count: ``start`` inclusive, ``end`` exclusive; see ``relay.deliverylog.measures`` for the names."""

    start: datetime
    end: datetime
    measures: Sequence[str]
    dimensions: Sequence[str] | None = None
    filters: Mapping[str, Any] | None = None
    """Name -> a value, or several as alternatives."""
    granularity: Granularity | None = None


Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsResult:
    """Rows of dimensions and measures, and ``time`` (the bucket's begin, UTC) where there is a granularity."""

    rows: list[Row] = field(default_factory=list)
    query_time_ms: int = 0
    row_count: int = 0
    row_limit: int = 0
    truncated: bool = False
