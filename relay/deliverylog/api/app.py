"""The log's read-only HTTP API: an ASGI application for all paths below ``/api/v1/log``. Needs the extra ``api``.

Every request needs a bearer token, the OpenAPI document at ``openapi.json`` too; a token may be tied to a tenant, and
then reads that tenant alone. The composition root imports this only when a token is configured. Errors are
``{"error": kind, "message": text}``: 400 for an invalid query or one that is too large, 401, 403, 404, 429 for too
many requests at once, and 503 when the log's database is unavailable.

Answers are encoded piece by piece, because a long call into C code would hold the threads of the engine too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, cast

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from relay.deliverylog import text
from relay.deliverylog.api.access import ForeignTenant, Tokens, guard, known_parameters, own_tenant, problem
from relay.deliverylog.api.models import ApiAttempt, ApiAttemptPage, ApiEvent, ApiEventPage, ApiMetrics, ApiProblem
from relay.deliverylog.api.queries import Id, Include, One, attempts_query, events_query, metrics_query
from relay.deliverylog.errors import DeliveryLogError, ResourceLimit
from relay.deliverylog.query import ListAttempts, ListEvents, MetricsQuery, MetricsResult, Page
from relay.deliverylog.store import DeliveryLog

PREFIX = "/api/v1/log"

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": ApiProblem, "description": "The query is invalid, or its answer too large or too slow."},
    401: {"model": ApiProblem, "description": "The bearer token is missing or wrong."},
    403: {"model": ApiProblem, "description": "The token is for another tenant."},
    429: {"model": ApiProblem, "description": "Too many requests at once."},
    503: {"model": ApiProblem, "description": "The log's database is unavailable."},
}
_ABSENT: dict[int | str, dict[str, Any]] = {404: {"model": ApiProblem, "description": "There is no such row."}}


def build_api(store: Callable[[], Awaitable[DeliveryLog]], tokens: Tokens) -> FastAPI:
    """The application. ``store`` is called for each request, so the log may become available after the API.

    Raises ValueError without a token, and for an empty one, which would admit every request.
    """
    if not tokens or not all(tokens):
        raise ValueError("the API needs a token")
    app = FastAPI(
        title="Open Outbox delivery log",
        version="1",
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(HTTPBearer(auto_error=False)), Depends(known_parameters)],
        responses=_PROBLEMS,
        openapi_url=f"{PREFIX}/openapi.json",
    )
    app.middleware("http")(guard(tokens))
    app.exception_handler(ForeignTenant)(_foreign)
    app.exception_handler(DeliveryLogError)(_refused)
    app.exception_handler(RequestValidationError)(_malformed)
    app.exception_handler(HTTPException)(_http_problem)
    _add_listings(app, store)
    _add_rows(app, store)
    _add_metrics(app, store)
    _without_422(app)
    return app


def _add_listings(app: FastAPI, store: Callable[[], Awaitable[DeliveryLog]]) -> None:
    @app.get(f"{PREFIX}/events", response_model=ApiEventPage)
    async def list_events(query: Annotated[ListEvents, Depends(events_query)]) -> Response:
        """Events, one page at a time."""
        page = await (await store()).list_events(query)
        return _page(page, partial(text.event_json, with_data=query.include_data))

    @app.get(f"{PREFIX}/attempts", response_model=ApiAttemptPage)
    async def list_attempts(query: Annotated[ListAttempts, Depends(attempts_query)]) -> Response:
        """Attempts with their events, one page at a time."""
        page = await (await store()).list_attempts(query)
        return _page(page, partial(text.attempt_json, with_data=query.include_data))


def _add_rows(app: FastAPI, store: Callable[[], Awaitable[DeliveryLog]]) -> None:
    @app.get(f"{PREFIX}/events/{{event_id:path}}", response_model=ApiEvent, responses=_ABSENT)
    async def retrieve_event(
        request: Request, event_id: Id, tenant_id: One = None, destination_id: One = None, include: Include = None
    ) -> Response:
        """One event; with a destination only if the log has an attempt to it."""
        tenant = own_tenant(request, tenant_id)
        event = await (await store()).retrieve_event(event_id, tenant_id=tenant, destination_id=destination_id)
        if event is None:
            raise HTTPException(404, "there is no such event")
        return _json(text.encode_json(text.event_json(event, with_data=bool(include))))

    @app.get(f"{PREFIX}/attempts/{{attempt_id:path}}", response_model=ApiAttempt, responses=_ABSENT)
    async def retrieve_attempt(
        request: Request, attempt_id: Id, tenant_id: One = None, include: Include = None
    ) -> Response:
        """One attempt with its event."""
        tenant = own_tenant(request, tenant_id)
        record = await (await store()).retrieve_attempt(attempt_id, tenant_id=tenant)
        if record is None:
            raise HTTPException(404, "there is no such attempt")
        return _json(text.encode_json(text.attempt_json(record, with_data=bool(include))))


def _add_metrics(app: FastAPI, store: Callable[[], Awaitable[DeliveryLog]]) -> None:
    @app.get(f"{PREFIX}/metrics/events", response_model=ApiMetrics)
    async def event_metrics(query: Annotated[MetricsQuery, Depends(metrics_query)]) -> Response:
        """Events counted."""
        return _metrics(await (await store()).event_metrics(query))

    @app.get(f"{PREFIX}/metrics/attempts", response_model=ApiMetrics)
    async def attempt_metrics(query: Annotated[MetricsQuery, Depends(metrics_query)]) -> Response:
        """Attempts counted."""
        return _metrics(await (await store()).attempt_metrics(query))


def _without_422(app: FastAPI) -> None:
    """A malformed parameter is answered with 400 here; so the OpenAPI document must not name FastAPI's own 422."""
    document = app.openapi()
    for path in document["paths"].values():
        path["get"]["responses"].pop("422", None)


def _page(page: Page[Any], as_json: Callable[[Any], dict[str, Any]]) -> Response:
    return _json(text.json_document("items", map(as_json, page.items), {"next": page.next, "prev": page.prev}))


def _metrics(result: MetricsResult) -> Response:
    return _json(text.json_document("rows", map(text.row_json, result.rows), text.metrics_summary(result)))


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


async def _refused(_request: Request, error: Exception) -> Response:
    unanswerable = isinstance(error, (ValueError, ResourceLimit))
    return problem(400 if unanswerable else 503, type(error).__name__, str(error))


async def _foreign(_request: Request, error: Exception) -> Response:
    return problem(403, "forbidden", str(error))


async def _malformed(_request: Request, error: Exception) -> Response:
    first = cast("RequestValidationError", error).errors()[0]
    return problem(400, "InvalidQuery", f"{first['loc'][-1]}: {first['msg']}")


async def _http_problem(_request: Request, error: Exception) -> Response:
    refused = cast("HTTPException", error)
    kind = "not_found" if refused.status_code == 404 else "http"
    return problem(refused.status_code, kind, str(refused.detail), refused.headers)
