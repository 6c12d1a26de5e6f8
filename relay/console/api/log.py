"""The delivery log: listings, one event, one attempt, and counts. Read only.

The log is read and its answers are encoded in the log's own loop (``relay.console.stores``), piece by piece, because
a long call into C code would hold the threads of other requests too.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Response

from relay.console.access import Identity
from relay.console.api.log_models import LogAttemptItem, LogAttemptItems, LogEventItem, LogEventItems, LogMetrics
from relay.console.api.log_queries import Id, Include, One, attempts_query, events_query, metrics_query
from relay.console.api.requests import READING, Reader
from relay.console.context import ConsoleParts, shows_payloads
from relay.console.problems import RequestProblem
from relay.deliverylog import AttemptRecord, DeliveryLog, LoggedEvent, text
from relay.deliverylog.query import ListAttempts, ListEvents, MetricsQuery, MetricsResult

_REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    400: {"description": "The query is invalid, or its answer too large or too slow."},
    429: {"description": "Too many requests read the log at once."},
}
router = APIRouter(prefix="/log", tags=["delivery log"], responses=_REFUSALS)


@router.get("/events", response_model=LogEventItems)
async def list_logged_events(
    console: ConsoleParts, identity: Reader, query: Annotated[ListEvents, Depends(events_query)]
) -> Response:
    """Events, one page at a time."""

    async def read(log: DeliveryLog) -> bytes:
        page = await log.list_events(query)
        items = (_event(event, identity, with_data=query.include_data) for event in page.items)
        return text.json_document("items", items, {"next": page.next, "prev": page.prev})

    return _json(await console.log.read(read))


@router.get("/attempts", response_model=LogAttemptItems)
async def list_attempts(
    console: ConsoleParts, identity: Reader, query: Annotated[ListAttempts, Depends(attempts_query)]
) -> Response:
    """Attempts with their events, one page at a time."""

    async def read(log: DeliveryLog) -> bytes:
        page = await log.list_attempts(query)
        items = (_attempt(record, identity, with_data=query.include_data) for record in page.items)
        return text.json_document("items", items, {"next": page.next, "prev": page.prev})

    return _json(await console.log.read(read))


@router.get("/events/{event_id:path}", response_model=LogEventItem)
async def retrieve_logged_event(
    console: ConsoleParts,
    identity: Reader,
    event_id: Id,
    tenant_id: One = None,
    destination_id: Annotated[str | None, Query()] = None,
    include: Include = None,
) -> Response:
    """One event; with a destination only if the log has an attempt to it."""
    event = await console.log.read(
        lambda log: log.retrieve_event(event_id, tenant_id=tenant_id, destination_id=destination_id)
    )
    if event is None:
        raise RequestProblem(404, "event-missing", f"the delivery log has no event {event_id!r} with these filters")
    return _json(text.encode_json(_event(event, identity, with_data=bool(include))))


@router.get("/attempts/{attempt_id:path}", response_model=LogAttemptItem)
async def retrieve_attempt(
    console: ConsoleParts, identity: Reader, attempt_id: Id, tenant_id: One = None, include: Include = None
) -> Response:
    """One attempt with its event."""
    record = await console.log.read(lambda log: log.retrieve_attempt(attempt_id, tenant_id=tenant_id))
    if record is None:
        raise RequestProblem(404, "attempt-missing", f"the delivery log has no attempt {attempt_id!r}")
    return _json(text.encode_json(_attempt(record, identity, with_data=bool(include))))


@router.get("/metrics/events", response_model=LogMetrics, dependencies=READING)
async def event_metrics(console: ConsoleParts, query: Annotated[MetricsQuery, Depends(metrics_query)]) -> Response:
    """Count events, by time and dimension."""
    return _json(await console.log.read(lambda log: _metrics(log.event_metrics(query))))


@router.get("/metrics/attempts", response_model=LogMetrics, dependencies=READING)
async def attempt_metrics(console: ConsoleParts, query: Annotated[MetricsQuery, Depends(metrics_query)]) -> Response:
    """Count attempts, by time and dimension."""
    return _json(await console.log.read(lambda log: _metrics(log.attempt_metrics(query))))


def _event(event: LoggedEvent, identity: Identity, *, with_data: bool) -> dict[str, Any]:
    visible = shows_payloads(identity)
    fields = text.event_json(event, with_data=with_data and visible)
    hidden = {"metadata": None, **({"data_base64": None} if with_data else {})}
    return fields if visible else {**fields, **hidden}


def _attempt(record: AttemptRecord, identity: Identity, *, with_data: bool) -> dict[str, Any]:
    fields = text.attempt_json(record, with_data=False)
    hidden = {} if shows_payloads(identity) else {"response_data": None}
    return {**fields, **hidden, "event": _event(record.event, identity, with_data=with_data)}


async def _metrics(counting: Awaitable[MetricsResult]) -> bytes:
    result = await counting
    return text.json_document("rows", map(text.row_json, result.rows), text.metrics_summary(result))


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")
