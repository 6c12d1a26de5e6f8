"""The event store: its tenants and subscriptions, a tenant's streams, a stream's events."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from relay.console.api.requests import Reader
from relay.console.api.store import events_of_stream, older
from relay.console.context import ConsoleParts, shows_payloads
from relay.console.pages.form_fields import uuid_field
from relay.console.pages.render import page
from relay.core.json_text import indented
from relay.eventstore.browse import StoreBrowser
from relay.eventstore.model import LARGEST_VERSION
from relay.eventstore.states import SubscriptionState

router = APIRouter(include_in_schema=False)

_PAGE: Final = 50
_EVENTS: Final = 20
_LONGEST_BODY: Final = 20_000  # characters that a page shows of each event

Text = Annotated[str, Query(max_length=100)]
After = Annotated[UUID | None, Query()]


@router.get("/store")
async def store_page(
    request: Request, console: ConsoleParts, identity: Reader, tenant: Text = "", cursor: After = None
) -> Response:
    """The store, or the tenant whose id was written; where none is installed, how to get one."""
    if tenant.strip():
        return RedirectResponse(f"/store/tenants/{uuid_field(tenant, 'a tenant')}", 303)
    summary = await console.store.summary()
    if summary is None:
        return page(request, "store_missing.html", identity, title="Event store", schema=console.store.schema)

    async def read(store: StoreBrowser) -> tuple[list[UUID], list[SubscriptionState]]:
        return await store.tenants(cursor, _PAGE + 1), await store.subscriptions() if cursor is None else []

    tenants, subscriptions = await console.store.read(read)
    return page(
        request,
        "store.html",
        identity,
        title="Event store",
        summary=summary,
        schema=console.store.schema,
        tenants=tenants[:_PAGE],
        following=tenants[_PAGE - 1] if len(tenants) > _PAGE else None,
        deep=cursor is not None,
        subscriptions=subscriptions,
    )


@router.get("/store/tenants/{tenant_id}")
async def tenant_page(
    request: Request,
    console: ConsoleParts,
    identity: Reader,
    tenant_id: UUID,
    stream: Text = "",
    cursor: After = None,
) -> Response:
    """A tenant's streams, or the one whose id was written."""
    if stream.strip():
        return RedirectResponse(f"/store/tenants/{tenant_id}/streams/{uuid_field(stream, 'a stream')}", 303)
    streams = await console.store.read(lambda store: store.streams(tenant_id, cursor, _PAGE + 1))
    return page(
        request,
        "store_tenant.html",
        identity,
        title=f"Tenant {tenant_id}",
        tenant=tenant_id,
        streams=streams[:_PAGE],
        following=streams[_PAGE - 1].stream_id if len(streams) > _PAGE else None,
        deep=cursor is not None,
    )


@router.get("/store/tenants/{tenant_id}/streams/{stream_id}")
async def stream_page(
    request: Request,
    console: ConsoleParts,
    identity: Reader,
    tenant_id: UUID,
    stream_id: UUID,
    cursor: Annotated[int | None, Query(ge=1, le=LARGEST_VERSION)] = None,
) -> HTMLResponse:
    """A stream's events, newest first, with their bodies where the role may see them."""
    visible = shows_payloads(identity)
    events = await console.store.read(
        lambda store: events_of_stream(store, tenant_id, stream_id, cursor, _EVENTS, with_data=visible)
    )
    return page(
        request,
        "store_stream.html",
        identity,
        title=f"Stream {stream_id}",
        tenant=tenant_id,
        stream=stream_id,
        events=[(event, _shown(event.data), _shown(event.meta)) for event in events],
        following=older(events),
        deep=cursor is not None,
    )


def _shown(text: str | None) -> str:
    """JSON indented, cut where a page would be too long; empty where there is none."""
    if text is None or text == "{}":
        return ""
    return (indented(text) or text) if len(text) <= _LONGEST_BODY else f"{text[:_LONGEST_BODY]} …"
