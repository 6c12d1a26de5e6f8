"""The streams that subscriptions of the event store have set aside: list, retry, skip. Each change is recorded."""

from __future__ import annotations

from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field

from relay.console.api.models import ApiModel, ChangeItem, Stamp, Words
from relay.console.api.requests import READING, IdempotencyKey, Operator, change_request
from relay.console.context import Console, ConsoleParts
from relay.console.problems import RequestProblem, invalid_request
from relay.console.recording import recorded, recording
from relay.console.stores import store_missing
from relay.core.errors import SchemaError
from relay.eventstore.parked import retry_within, skip_within
from relay.outbox.admin.changes import Change, Request
from relay.outbox.table_check import UNDEFINED_TABLE

_REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    409: {"description": "The stream is not parked, or is retried now."},
    429: {"description": "Too many requests read the event store at once."},
}
router = APIRouter(prefix="/store/parked", tags=["event store"], responses=_REFUSALS)

MOST: Final = 200


class ParkedItem(ApiModel):
    """A stream that a subscription has set aside."""

    subscription: str
    tenant_id: UUID
    stream_id: UUID
    position: int = Field(description="Of the first event that was not applied.")
    version: int = Field(description="Of the same event in its stream.")
    tries: int
    error: str = Field(description="Of the last try.")
    retrying: bool = Field(description="Whether the running consumer retries it, or will.")
    parked_at: Stamp


class ParkedItems(ApiModel):
    """Parked streams, the oldest first."""

    items: list[ParkedItem]
    complete: bool = Field(description="False when there are more.")


class ParkedRetryBody(ApiModel):
    """What is retried: one stream of a subscription, or all that it has set aside."""

    subscription: Words = Field(examples=["balances"])
    tenant_id: UUID | None = Field(None, description="With `stream_id`; absent: all streams.")
    stream_id: UUID | None = None
    reason: Words = ""


class ParkedSkipBody(ApiModel):
    """Whose first event is given up."""

    subscription: Words = Field(examples=["balances"])
    tenant_id: UUID
    stream_id: UUID
    reason: Words = ""


@router.get("", dependencies=READING)
async def list_parked_streams(
    console: ConsoleParts,
    subscription: Annotated[Words | None, Query(description="Absent: all.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
) -> ParkedItems:
    """Streams that subscriptions have set aside behind an event that failed, each with its error, the oldest first."""
    streams = await console.store.read(lambda store: store.parked(subscription, limit + 1))
    return ParkedItems.model_validate({"items": streams[:limit], "complete": len(streams) <= limit})


@router.post("/retry")
def retry_parked_streams(
    console: ConsoleParts, identity: Operator, body: ParkedRetryBody, idempotency_key: IdempotencyKey = None
) -> ChangeItem:
    """Let the running consumer apply parked events again: of one stream, or of all of a subscription.

    The change's `events` counts the streams.
    """
    request = change_request(identity, idempotency_key, body.reason)
    if (body.tenant_id is None) != (body.stream_id is None):
        message = "tenant_id and stream_id: set both, or none to retry all parked streams"
        raise invalid_request(message)
    stream = None if body.tenant_id is None or body.stream_id is None else (body.tenant_id, body.stream_id)
    return ChangeItem.model_validate(_changed(console, "retry", body, request, stream))


@router.post("/skip")
def skip_parked_event(
    console: ConsoleParts, identity: Operator, body: ParkedSkipBody, idempotency_key: IdempotencyKey = None
) -> ChangeItem:
    """Give up the event at which a stream is parked; the running consumer goes on with the next one of the stream."""
    request = change_request(identity, idempotency_key, body.reason)
    return ChangeItem.model_validate(_changed(console, "skip", body, request, (body.tenant_id, body.stream_id)))


def _changed(
    console: Console,
    action: str,
    body: ParkedRetryBody | ParkedSkipBody,
    request: Request,
    stream: tuple[UUID, UUID] | None,
) -> Change:
    """The recorded change. Raises RequestProblem for a stream that is not parked, or is retried now."""
    described = body.model_dump(mode="json", exclude={"reason"}, exclude_none=True)
    schema, name = console.store.schema, body.subscription
    advice = f"run as the owner: relay-cli store grant USER console --schema {schema}, with the user of the console"
    try:
        with recording(console.url, advice) as connection:

            def work() -> int:
                if stream is None or action == "retry":
                    count = retry_within(connection, schema, name, stream)
                else:
                    count = int(skip_within(connection, schema, name, stream))
                if stream is not None and not count:
                    raise _not_parked(name, stream)
                return count

            return recorded(connection, console.table, action, described, request, work)
    except SchemaError as error:
        if error.sqlstate != UNDEFINED_TABLE:
            raise
        raise store_missing(schema) from error


def _not_parked(subscription: str, stream: tuple[UUID, UUID]) -> RequestProblem:
    tenant_id, stream_id = stream
    message = (
        f"subscription {subscription!r} has not parked stream {stream_id} of tenant {tenant_id}, or retries it now"
    )
    return RequestProblem(409, "stream-not-parked", message)
