"""The event store: tenants, streams and their events, subscriptions. Read only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

from fastapi import APIRouter, Query, Response

from relay.console.api.models import moment_text
from relay.console.api.requests import READING, Reader
from relay.console.api.store_models import (
    StoreItem,
    StreamEventItems,
    StreamItems,
    SubscriptionItems,
    TenantItem,
    TenantItems,
)
from relay.console.context import ConsoleParts, shows_payloads
from relay.console.problems import RequestProblem
from relay.console.stores import store_missing
from relay.core.json_text import with_member
from relay.eventstore.browse import ListedStreamEvent, StoreBrowser
from relay.eventstore.model import LARGEST_VERSION

T = TypeVar("T")

_REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    404: {"description": "There is no such tenant or stream."},
    429: {"description": "Too many requests read the event store at once."},
}
router = APIRouter(prefix="/store", tags=["event store"], responses=_REFUSALS)

_Limit = Annotated[int, Query(ge=1, le=200)]
_After = Annotated[UUID | None, Query(description="`next` of the page before.")]
_Before = Annotated[int | None, Query(ge=1, le=LARGEST_VERSION, description="`next` of the page before.")]


@router.get("", dependencies=READING)
async def retrieve_store(console: ConsoleParts) -> StoreItem:
    """The event store as a whole."""
    summary = await console.store.summary()
    if summary is None:
        raise store_missing(console.store.schema)
    return StoreItem.model_validate({"schema_name": console.store.schema, **summary._asdict()})


@router.get("/tenants", dependencies=READING)
async def list_tenants(console: ConsoleParts, limit: _Limit = 50, cursor: _After = None) -> TenantItems:
    """Tenants, in the order of their ids."""
    tenants = await console.store.read(lambda store: store.tenants(cursor, limit + 1))
    page = tenants[:limit]
    items = [TenantItem(tenant_id=tenant) for tenant in page]
    return TenantItems(items=items, next=page[-1] if len(tenants) > limit else None)


@router.get("/tenants/{tenant_id}/streams", dependencies=READING)
async def list_streams(
    console: ConsoleParts, tenant_id: UUID, limit: _Limit = 50, cursor: _After = None
) -> StreamItems:
    """A tenant's streams with their versions, in the order of their ids."""
    streams = await console.store.read(lambda store: store.streams(tenant_id, cursor, limit + 1))
    page = streams[:limit]
    following = page[-1].stream_id if len(streams) > limit else None
    return StreamItems.model_validate({"items": page, "next": following})


@router.get("/tenants/{tenant_id}/streams/{stream_id}/events", response_model=StreamEventItems)
async def list_stream_events(
    console: ConsoleParts,
    identity: Reader,
    tenant_id: UUID,
    stream_id: UUID,
    limit: _Limit = 50,
    cursor: _Before = None,
) -> Response:
    """A stream's events, newest first. Their bodies are null for a role that may not see them."""
    visible = shows_payloads(identity)

    async def read(store: StoreBrowser) -> bytes:
        events = await events_of_stream(store, tenant_id, stream_id, cursor, limit, with_data=visible)
        items = ",".join(map(_event, events))
        return f'{{"items":[{items}],"next":{json.dumps(older(events))}}}'.encode()

    return Response(await console.store.read(read), media_type="application/json")


@router.get("/subscriptions", dependencies=READING)
async def list_subscriptions(console: ConsoleParts) -> SubscriptionItems:
    """All subscriptions with their lag, and who holds them."""
    states = await console.store.read(lambda store: store.subscriptions())
    return SubscriptionItems.model_validate({"items": states})


async def events_of_stream(
    store: StoreBrowser, tenant_id: UUID, stream_id: UUID, before: int | None, limit: int, *, with_data: bool
) -> list[ListedStreamEvent]:
    """A page of a stream, newest first. Raises RequestProblem for a stream without an event."""
    events = await store.events(tenant_id, stream_id, before, limit, with_data=with_data)
    if not events and before is None:
        raise RequestProblem(404, "stream-missing", f"tenant {tenant_id} has no stream {stream_id}")
    return events


def older(events: Sequence[ListedStreamEvent]) -> int | None:
    """The cursor of the events before these: versions count from 1."""
    return events[-1].version if events and events[-1].version > 1 else None


def _event(event: ListedStreamEvent) -> str:
    """JSON, into which the bodies go as PostgreSQL wrote them: no number loses a digit."""
    fields = {**event._asdict(), "log_date": moment_text(event.log_date)}
    del fields["meta"], fields["data"]
    text = with_member(json.dumps(fields, ensure_ascii=False), "meta", event.meta or "null")
    return with_member(text, "data", event.data or "null")
