"""The parameters of the log's HTTP API, and the queries that they make."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Query, Request

from relay.deliverylog import text
from relay.deliverylog.api.access import own_filters, own_tenants
from relay.deliverylog.query import ListAttempts, ListEvents, MetricsQuery, TimeWindow

Several = Annotated[list[str] | None, Query(description="Alternatives, at most 100; repeat the parameter.")]
Bound = Annotated[str | None, Query(description="ISO 8601 with a zone, for example 2026-03-10T12:00:00Z.")]
Cursor = Annotated[str | None, Query(description="What an earlier page returned.")]
Order = Annotated[Literal["asc", "desc"], Query()]
Limit = Annotated[int | None, Query(description="Absent, 0 or negative: 100; at most 1000.")]
Id = Annotated[str, Path(min_length=1)]
One = Annotated[str | None, Query()]
Include = Annotated[list[Literal["data"]] | None, Query(description="`data`: with payloads.")]
Measures = Annotated[list[str], Query(description="What to count.")]
Moment = Annotated[str, Query(description="ISO 8601 with a zone, for example 2026-03-10T12:00:00Z.")]
Filters = Annotated[list[str] | None, Query(alias="filter", description="name=value; repeated ones are alternatives.")]
Width = Annotated[str | None, Query(description="For example 5m, 1h, 1d, 1w or 1M.")]


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
    request: Request,
    time: Annotated[TimeWindow, Depends(window)],
    page: Annotated[dict[str, Any], Depends(page_of)],
    tenant_id: Several = None,
    event_id: Several = None,
    destination_id: Several = None,
    topic: Several = None,
) -> ListEvents:
    """A listing of events."""
    return ListEvents(
        tenant_ids=own_tenants(request, tenant_id),
        event_ids=event_id,
        destination_ids=destination_id,
        topics=topic,
        time=time,
        **page,
    )


def attempts_query(  # noqa: PLR0913, PLR0917 - one parameter a filter
    request: Request,
    time: Annotated[TimeWindow, Depends(window)],
    page: Annotated[dict[str, Any], Depends(page_of)],
    tenant_id: Several = None,
    event_id: Several = None,
    destination_id: Several = None,
    destination_type: Several = None,
    status: Several = None,
    topic: Several = None,
    sort_by: Annotated[Literal["time", "event_time"], Query()] = "time",
) -> ListAttempts:
    """A listing of attempts."""
    return ListAttempts(
        tenant_ids=own_tenants(request, tenant_id),
        event_ids=event_id,
        destination_ids=destination_id,
        destination_types=destination_type,
        status=status,
        topics=topic,
        time=time,
        sort_by=sort_by,
        **page,
    )


def metrics_query(
    request: Request,
    start: Moment,
    end: Moment,
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
        filters=own_filters(request, text.parse_filters(filters or [])),
        granularity=text.parse_granularity(granularity) if granularity else None,
    )
