"""The delivery log: searching attempts, deliveries and failures over time, an event's attempts, one attempt."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, RedirectResponse, Response

from relay.console.access import Identity
from relay.console.api.requests import Reader
from relay.console.context import ConsoleParts
from relay.console.pages.form_fields import Text, text_field, time_field
from relay.console.pages.payloads import ShownPayload
from relay.console.pages.render import page
from relay.console.problems import RequestProblem
from relay.core.errors import OutboxError
from relay.core.json_text import indented, written
from relay.deliverylog import DeliveryLog, Granularity, ListAttempts, MetricsQuery, MetricsResult, TimeWindow
from relay.deliverylog.records import STATUSES

router = APIRouter(include_in_schema=False)

_PAGE: Final = 50
_HOUR: Final = timedelta(hours=1)  # what the chart shows where the search names no time
_MOST_SLOTS: Final = 90
_MOST_FAILURES: Final = 12  # lines, the largest
_WIDTHS: Final = (
    *((Granularity(value, "s"), timedelta(seconds=value)) for value in (1, 5, 15, 30)),
    *((Granularity(value, "m"), timedelta(minutes=value)) for value in (1, 5, 15, 30)),
    *((Granularity(value, "h"), timedelta(hours=value)) for value in (1, 3, 6, 12)),
    *((Granularity(value, "d"), timedelta(days=value)) for value in (1, 7, 30)),
)

Cursor = Annotated[str, Field(max_length=4000)]
Tenant = Annotated[str | None, Query(max_length=500)]


class LogFields(BaseModel):
    """What the form of the search sends; an empty field is no filter."""

    tenant: Text = ""
    destination: Text = ""
    topic: Text = ""
    status: Text = ""
    code: Text = ""
    since: Text = ""
    until: Text = ""
    event: Text = ""
    next: Cursor = ""
    prev: Cursor = ""

    def attempts(self) -> ListAttempts:
        """The page of attempts. Raises RequestProblem for what is no time."""
        return ListAttempts(
            tenant_ids=_values(self.tenant),
            destination_ids=_values(self.destination),
            topics=_values(self.topic),
            status=_values(self.status),
            codes=_values(self.code),
            time=TimeWindow(gte=time_field(self.since), lt=time_field(self.until)),
            limit=_PAGE,
            next=self.next or None,
            prev=self.prev or None,
            include_data=False,
        )

    def counts(self, now: datetime) -> MetricsQuery:
        """Deliveries and failures over the search's time, or over the last hour of it."""
        end = time_field(self.until) or now
        start = time_field(self.since) or end - _HOUR
        filters = {
            "tenant_id": _values(self.tenant),
            "destination_id": _values(self.destination),
            "topic": _values(self.topic),
            "status": _values(self.status),
            "code": _values(self.code),
        }
        return MetricsQuery(
            start=start,
            end=end,
            measures=["successful_count", "failed_count"],
            filters={name: values for name, values in filters.items() if values},
            granularity=_width(end - start),
        )

    def used(self) -> dict[str, str]:
        """The fields that narrow the search, for the addresses of further pages."""
        values = self.model_dump(exclude={"event", "next", "prev"})
        return {name: value for name, value in values.items() if value}


@router.get("/log")
async def search_page(
    request: Request, console: ConsoleParts, identity: Reader, fields: Annotated[LogFields, Query()]
) -> Response:
    """The search, or the event whose id was written; without a log, how to get one."""
    if not console.log.configured:
        return page(request, "log_missing.html", identity, title="Delivery log")
    if event_id := text_field(fields.event):
        return RedirectResponse(f"/log/events/{quote(event_id)}", 303)
    query = fields.attempts()
    result = await console.log.read(lambda log: log.list_attempts(query))
    used = fields.used()
    return page(
        request,
        "log.html",
        identity,
        title="Delivery log",
        values=fields,
        used=used,
        statuses=STATUSES,
        result=result,
        deep=bool(fields.next or fields.prev),
        address="/log",
    )


@router.get("/log/chart")
async def chart_page(
    request: Request, console: ConsoleParts, identity: Reader, fields: Annotated[LogFields, Query()]
) -> HTMLResponse:
    """Deliveries and failures over time."""
    query = fields.counts(datetime.now(UTC))
    plot: dict[str, list[float]] = {"times": [], "events": [], "failures": []}
    trouble = ""
    try:
        plot = plot_of(await console.log.read(lambda log: log.attempt_metrics(query)))
    except OutboxError as error:
        trouble = str(error)
    return _part(
        request,
        "log_chart_live.html",
        identity,
        heading="over-time",
        title="Deliveries over time",
        query=query,
        plot=json.dumps(plot),
        delivered=int(sum(plot["events"])),
        failed=int(sum(plot["failures"])),
        trouble=trouble,
    )


@router.get("/log/failures")
async def failures_page(request: Request, console: ConsoleParts, identity: Reader) -> HTMLResponse:
    """Failed attempts of the last hour by topic and code."""
    now = datetime.now(UTC)
    query = MetricsQuery(
        start=now - _HOUR,
        end=now,
        measures=["failed_count"],
        dimensions=["topic", "code"],
        filters={"status": ["failed"]},
    )
    failures: list[dict[str, Any]] = []
    trouble = ""
    try:
        result = await console.log.read(lambda log: log.attempt_metrics(query))
        failures = sorted(result.rows, key=lambda row: -row["failed_count"])
    except OutboxError as error:
        trouble = str(error)
    return _part(
        request,
        "log_failures_live.html",
        identity,
        heading="failures",
        title="Failed attempts",
        failures=failures[:_MOST_FAILURES],
        total=sum(row["failed_count"] for row in failures),
        since=f"{query.start:%Y-%m-%dT%H:%M}",
        trouble=trouble,
    )


@router.get("/log/events/{event_id:path}")
async def event_page(
    request: Request,
    console: ConsoleParts,
    identity: Reader,
    event_id: str,
    tenant_id: Tenant = None,
    next: Annotated[str | None, Query(max_length=4000)] = None,  # noqa: A002 - the cursor's name, as in the API
    prev: Annotated[str | None, Query(max_length=4000)] = None,
) -> HTMLResponse:
    """An event as the log has it, and its attempts."""

    async def read(log: DeliveryLog) -> tuple[Any, Any]:
        event = await log.retrieve_event(event_id, tenant_id=tenant_id)
        if event is None:
            raise RequestProblem(404, "event-missing", f"the delivery log has no event {event_id!r}")
        query = ListAttempts(
            event_ids=[event.id], tenant_ids=[event.tenant_id], limit=_PAGE, next=next, prev=prev, include_data=False
        )
        return event, await log.list_attempts(query)

    event, result = await console.log.read(read)
    return page(
        request,
        "log_event.html",
        identity,
        title=f"Event {event.id} in the delivery log",
        event=event,
        payload=ShownPayload.of(event.data),
        result=result,
        used={"tenant_id": event.tenant_id},
        deep=bool(next or prev),
        address=request.url.path,
    )


@router.get("/log/attempts/{attempt_id:path}")
async def attempt_page(
    request: Request, console: ConsoleParts, identity: Reader, attempt_id: str, tenant_id: Tenant = None
) -> HTMLResponse:
    """One attempt, with what the broker answered where the role may see it."""
    record = await console.log.read(lambda log: log.retrieve_attempt(attempt_id, tenant_id=tenant_id))
    if record is None:
        raise RequestProblem(404, "attempt-missing", f"the delivery log has no attempt {attempt_id!r}")
    response = record.attempt.response_data
    return page(
        request,
        "log_attempt.html",
        identity,
        title=f"Attempt {attempt_id}",
        attempt=record.attempt,
        event=record.event,
        response=None if response is None else indented(written(response)),
    )


def plot_of(result: MetricsResult) -> dict[str, list[float]]:
    """Times in seconds since 1970, and the deliveries and failures of each slot."""
    return {
        "times": [row["time"].timestamp() for row in result.rows],
        "events": [float(row["successful_count"]) for row in result.rows],
        "failures": [float(row["failed_count"]) for row in result.rows],
    }


def _part(request: Request, part: str, identity: Identity, **values: Any) -> HTMLResponse:  # noqa: ANN401 - the template's
    """The part alone for htmx, which asks for it after another page is shown; else a page with it."""
    template = part if "hx-request" in request.headers else "log_part.html"
    return page(request, template, identity, part=part, **values)


def _width(span: timedelta) -> Granularity:
    """The narrowest slots of which there are not too many."""
    return next((granularity for granularity, width in _WIDTHS if span <= width * _MOST_SLOTS), Granularity(12, "M"))


def _values(text: str) -> list[str] | None:
    value = text_field(text)
    return None if value is None else [value]
