"""The log's read-only HTTP API: an ASGI application for all paths below ``/api/v1/log``. Needs the extra ``api``.

Every request needs the bearer token, the OpenAPI document at ``openapi.json`` too. The composition root imports this
only when a token is configured. Errors are ``{"error": kind, "message": text}``: 400 for an invalid query, 401,
404, and 503 when the log's database is unavailable.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, cast

from fastapi import Depends, FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from relay.deliverylog import text
from relay.deliverylog.api.models import ApiAttempt, ApiAttemptPage, ApiEvent, ApiEventPage, ApiMetrics, ApiProblem
from relay.deliverylog.errors import DeliveryLogError, ResourceLimit
from relay.deliverylog.query import ListAttempts, ListEvents, MetricsQuery, Page, TimeWindow
from relay.deliverylog.store import DeliveryLog

PREFIX = "/api/v1/log"

Several = Annotated[list[str] | None, Query(description="Alternatives; repeat the parameter. None: no filter.")]
Bound = Annotated[str | None, Query(description="ISO 8601 with a zone, for example 2026-03-10T12:00:00Z.")]
Cursor = Annotated[str | None, Query(description="What an earlier page returned.")]
Order = Annotated[Literal["asc", "desc"], Query()]
Limit = Annotated[int | None, Query(description="Absent, 0 or negative: 100; at most 1000.")]
Id = Annotated[str, Path(min_length=1)]
One = Annotated[str | None, Query()]
Measures = Annotated[list[str], Query(description="What to count.")]
Moment = Annotated[str, Query(description="ISO 8601 with a zone, for example 2026-03-10T12:00:00Z.")]
Filters = Annotated[list[str] | None, Query(alias="filter", description="name=value; repeated ones are alternatives.")]
Width = Annotated[str | None, Query(description="For example 5m, 1h, 1d, 1w or 1M.")]

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": ApiProblem, "description": "The query is invalid."},
    401: {"model": ApiProblem, "description": "The bearer token is missing or wrong."},
    503: {"model": ApiProblem, "description": "The log's database is unavailable."},
}
_ABSENT: dict[int | str, dict[str, Any]] = {404: {"model": ApiProblem, "description": "There is no such row."}}


def build_api(store: Callable[[], Awaitable[DeliveryLog]], token: str) -> FastAPI:
    """The application. ``store`` is called for each request, so the log may become available after the API.

    Raises ValueError for an empty token, which would admit every request.
    """
    if not token:
        raise ValueError("the API needs a token")
    app = FastAPI(
        title="Open Outbox delivery log",
        version="1",
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(HTTPBearer(auto_error=False))],
        responses=_PROBLEMS,
        openapi_url=f"{PREFIX}/openapi.json",
    )
    app.middleware("http")(_guard(token))
    app.exception_handler(DeliveryLogError)(_refused)
    app.exception_handler(RequestValidationError)(_malformed)
    app.exception_handler(HTTPException)(_http_problem)
    _add_listings(app, store)
    _add_rows(app, store)
    _add_metrics(app, store)
    _without_422(app)
    return app


def window(time_gte: Bound = None, time_lte: Bound = None, time_gt: Bound = None, time_lt: Bound = None) -> TimeWindow:
    """The time bounds of a listing."""
    bounds = {"gte": time_gte, "lte": time_lte, "gt": time_gt, "lt": time_lt}
    return TimeWindow(**{name: text.parse_time(bound) for name, bound in bounds.items() if bound is not None})


def page_of(limit: Limit = None, order: Order = "desc", next: Cursor = None, prev: Cursor = None) -> dict[str, Any]:  # noqa: A002 - the API's name
    """The page of a listing."""
    return {"limit": limit, "order": order, "next": next, "prev": prev}


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
        time=time,
        sort_by=sort_by,
        **page,
    )


def metrics_query(
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
        filters=text.parse_filters(filters or []),
        granularity=text.parse_granularity(granularity) if granularity else None,
    )


def _add_listings(app: FastAPI, store: Callable[[], Awaitable[DeliveryLog]]) -> None:
    @app.get(f"{PREFIX}/events", response_model=ApiEventPage)
    async def list_events(query: Annotated[ListEvents, Depends(events_query)]) -> dict[str, Any]:
        """Events, one page at a time."""
        return _page(await (await store()).list_events(query), text.event_json)

    @app.get(f"{PREFIX}/attempts", response_model=ApiAttemptPage)
    async def list_attempts(query: Annotated[ListAttempts, Depends(attempts_query)]) -> dict[str, Any]:
        """Attempts with their events, one page at a time."""
        return _page(await (await store()).list_attempts(query), text.attempt_json)


def _add_rows(app: FastAPI, store: Callable[[], Awaitable[DeliveryLog]]) -> None:
    @app.get(f"{PREFIX}/events/{{event_id:path}}", response_model=ApiEvent, responses=_ABSENT)
    async def retrieve_event(event_id: Id, tenant_id: One = None, destination_id: One = None) -> dict[str, Any]:
        """One event; with a destination only if the log has an attempt to it."""
        event = await (await store()).retrieve_event(event_id, tenant_id=tenant_id, destination_id=destination_id)
        if event is None:
            raise HTTPException(404, "there is no such event")
        return text.event_json(event)

    @app.get(f"{PREFIX}/attempts/{{attempt_id:path}}", response_model=ApiAttempt, responses=_ABSENT)
    async def retrieve_attempt(attempt_id: Id, tenant_id: One = None) -> dict[str, Any]:
        """One attempt with its event."""
        record = await (await store()).retrieve_attempt(attempt_id, tenant_id=tenant_id)
        if record is None:
            raise HTTPException(404, "there is no such attempt")
        return text.attempt_json(record)


def _add_metrics(app: FastAPI, store: Callable[[], Awaitable[DeliveryLog]]) -> None:
    @app.get(f"{PREFIX}/metrics/events", response_model=ApiMetrics)
    async def event_metrics(query: Annotated[MetricsQuery, Depends(metrics_query)]) -> dict[str, Any]:
        """Events counted."""
        return text.metrics_json(await (await store()).event_metrics(query))

    @app.get(f"{PREFIX}/metrics/attempts", response_model=ApiMetrics)
    async def attempt_metrics(query: Annotated[MetricsQuery, Depends(metrics_query)]) -> dict[str, Any]:
        """Attempts counted."""
        return text.metrics_json(await (await store()).attempt_metrics(query))


def _without_422(app: FastAPI) -> None:
    """A malformed parameter is answered with 400 here; so the OpenAPI document must not name FastAPI's own 422."""
    document = app.openapi()
    for path in document["paths"].values():
        path["get"]["responses"].pop("422", None)


def _page(page: Page[Any], as_json: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    return {"items": [as_json(item) for item in page.items], "next": page.next, "prev": page.prev}


def _guard(token: str) -> Callable[[Request, Callable[[Request], Awaitable[Response]]], Awaitable[Response]]:
    expected = f"Bearer {token}".encode()

    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        authorization = request.headers.get("authorization", "").encode("latin-1", "replace")
        if not hmac.compare_digest(authorization, expected):
            problem = _problem(401, "unauthorized", "this API needs the bearer token API_TOKEN")
            problem.headers["WWW-Authenticate"] = "Bearer"
            return problem
        return await call_next(request)

    return guard


async def _refused(_request: Request, error: Exception) -> Response:
    unanswerable = isinstance(error, (ValueError, ResourceLimit))
    status = 400 if unanswerable else 503
    return _problem(status, type(error).__name__, str(error))


async def _malformed(_request: Request, error: Exception) -> Response:
    first = cast("RequestValidationError", error).errors()[0]
    return _problem(400, "InvalidQuery", f"{first['loc'][-1]}: {first['msg']}")


async def _http_problem(_request: Request, error: Exception) -> Response:
    refused = cast("HTTPException", error)
    problem = _problem(refused.status_code, "not_found" if refused.status_code == 404 else "http", str(refused.detail))
    problem.headers.update(refused.headers or {})
    return problem


def _problem(status: int, kind: str, message: str) -> JSONResponse:
    return JSONResponse({"error": kind, "message": message}, status)
