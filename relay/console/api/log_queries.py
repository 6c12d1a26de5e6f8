"""The parameters of the delivery log's operations, and the queries that they make."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import Depends, Path, Query

from relay.deliverylog import text
from relay.deliverylog.query import ListAttempts, ListEvents, MetricsQuery, TimeWindow

_TIME: Final = "2026-03-10T12:00:00Z"
_ZONED: Final = f"ISO 8601 with a zone, for example {_TIME}."
Several = Annotated[list[str] | None, Query(description="Alternatives, at most 100; repeat the parameter.")]
Bound = Annotated[str | None, Query(description=_ZONED, examples=[_TIME])]
Cursor = Annotated[str | None, Query(description="What an earlier page returned.")]
Order = Annotated[Literal["asc", "desc"], Query()]
Limit = Annotated[int | None, Query(description="Absent, 0 or negative: 100; at most 1000.")]
Id = Annotated[str, Path(min_length=1, examples=["0190b0a0-0000-7000-8000-000000000002"])]
One = Annotated[str | None, Query(description="Ids are unique within a tenant; absent: any.")]
Include = Annotated[list[Literal["data"]] | None, Query(description="`data`: with payloads, where the role sees them.")]
Measures = Annotated[list[str], Query(description="What to count.", examples=[["count"]])]
Start = Annotated[str, Query(description=f"Inclusive; {_ZONED}", examples=["2026-03-10T00:00:00Z"])]
End = Annotated[str, Query(description=f"Exclusive; {_ZONED}", examples=["2026-03-11T00:00:00Z"])]
Filters = Annotated[list[str] | None, Query(alias="filter", description="name=value; repeated ones are alternatives.")]
Width = Annotated[str | None, Query(description="For example 5m, 1h, 1d, 1w or 1M.", examples=["1h"])]


def window(time_gte: Bound = None, time_lte: Bound = None, time_gt: Bound = None, time_lt: Bound = None) -> TimeWindow:
    """The time bounds of a listing."""
    bounds = {"gte": time_gte, "lte": time_lte, "gt": time_gt, "lt": time_lt}
    return TimeWindow(**{name: text.parse_time(bound) for name, bound in bounds.items() if bound is not None})


def page_of(
    limit: Limit = None,
    order: Order = "desc",
    next: Cursor = None,  # noqa: A002 - the API's name
    prev: Cursor = None,
    include: Include = None,
) -> dict[str, Any]:
    """The page of a listing."""
    return {"limit": limit, "order": order, "next": next, "prev": prev, "include_data": bool(include)}


def events_query(
    time: Annotated[TimeWindow, Depends(window)],
    page: Annotated[dict[str, Any], Depends(page_of)],
    tenant_id: Several = None,
    event_id: Several = None,
    destination_id: Several = None,
    topic: Several = None,
) -> ListEvents:
    """A listing of events."""
    return ListEvents(
        tenant_ids=tenant_id, event_ids=event_id, destination_ids=destination_id, topics=topic, time=time, **page
    )


def attempts_query(  # noqa: PLR0913, PLR0917 - one parameter a filter
    time: Annotated[TimeWindow, Depends(window)],
    page: Annotated[dict[str, Any], Depends(page_of)],
    tenant_id: Several = None,
    event_id: Several = None,
    destination_id: Several = None,
    destination_type: Several = None,
    status: Several = None,
    topic: Several = None,
    code: Several = None,
    sort_by: Annotated[Literal["time", "event_time"], Query()] = "time",
) -> ListAttempts:
    """A listing of attempts."""
    return ListAttempts(
        tenant_ids=tenant_id,
        event_ids=event_id,
        destination_ids=destination_id,
        destination_types=destination_type,
        status=status,
        topics=topic,
        codes=code,
        time=time,
        sort_by=sort_by,
        **page,
    )


def metrics_query(
    start: Start,
    end: End,
    measure: Measures,
    dimension: Annotated[list[str] | None, Query(description="What to count by.")] = None,
    filters: Filters = None,
    granularity: Width = None,
) -> MetricsQuery:
    """A query for metrics."""
    return MetricsQuery(
        start=text.parse_time(start),
        end=text.parse_time(end),
        measures=measure,
        dimensions=dimension,
        filters=text.parse_filters(filters or []),
        granularity=text.parse_granularity(granularity) if granularity else None,
    )
