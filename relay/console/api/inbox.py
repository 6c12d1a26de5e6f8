"""The dead letters of consumers, in the inbox of the outbox's database: list, show, retry, skip. Changes are recorded.

It is the inbox of the default name, in the outbox's schema. Others are reached by ``relay-cli inbox``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field

from openoutbox.identity import LONGEST_ID
from relay.console.api.models import ApiModel, ChangeItem, Encoding, Stamp, Words, stored, with_headers
from relay.console.api.requests import READING, IdempotencyKey, Operator, Reader, change_request
from relay.console.context import Console, ConsoleParts, shows_payloads
from relay.console.problems import RequestProblem
from relay.console.recording import recorded
from relay.inbox.letters import (
    ShownLetter,
    changing_letters,
    list_letters,
    retry_letters,
    show_letter,
    skip_letter,
)
from relay.outbox.admin.changes import Change, Request
from relay.postgres.connect import SyncConnection
from relay.postgres.sql import DEFAULT_INBOX, TableName

_MISSING: Final[dict[int | str, dict[str, Any]]] = {404: {"description": "There is no such dead letter."}}
router = APIRouter(prefix="/inbox/dead-letters", tags=["inbox"], responses=_MISSING)

MOST: Final = 200
_Text = Annotated[str, Field(min_length=1, max_length=LONGEST_ID, pattern=r"^[^\x00]*$")]
_Consumer = Annotated[_Text, Field(description="Its name in the inbox.", examples=["billing"])]
_EventId = Annotated[_Text, Field(description="As the list shows it.")]


class _Letter(ApiModel):
    state: Literal["dead", "retry"] = Field(description="`retry` until the consumer has tried it again.")
    consumer: str
    event_id: str
    event_type: str | None
    partition_key: str | None
    tries: int
    since: Stamp


class LetterItem(_Letter):
    """A message that a consumer has given up."""

    payload_bytes: int
    error: str | None


class LetterItems(ApiModel):
    """Dead letters, the oldest first."""

    items: list[LetterItem]
    complete: bool = Field(description="False when there are more.")


class LetterDetail(_Letter):
    """A dead letter, whole."""

    error: str | None
    headers: Any = Field(description="Null when the role may not see it.")
    payload: str | None = Field(description="Null when the role may not see it.")
    payload_encoding: Encoding

    @classmethod
    def of(cls, letter: ShownLetter, *, visible: bool) -> LetterDetail:
        """The API's form of a dead letter, with its payload and headers where they may be seen."""
        return cls(**letter._asdict() | stored(letter.headers, letter.payload, visible=visible))


class LetterRetryBody(ApiModel):
    """What is tried again: one dead letter of a consumer, or all."""

    consumer: _Consumer
    event_id: _EventId | None = Field(None, description="Absent: all of the consumer.")
    reason: Words = ""


class LetterSkipBody(ApiModel):
    """Which dead letter is given up."""

    consumer: _Consumer
    event_id: _EventId
    reason: Words = ""


@router.get("", dependencies=READING)
def list_dead_letters(
    console: ConsoleParts,
    consumer: Annotated[_Text | None, Query(description="Absent: all.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
) -> LetterItems:
    """Messages that consumers have given up, the oldest first."""
    letters = list_letters(console.url, inbox_of(console), consumer, limit + 1)
    return LetterItems.model_validate({"items": letters[:limit], "complete": len(letters) <= limit})


@router.get("/one", response_model=LetterDetail)
def retrieve_dead_letter(
    console: ConsoleParts,
    identity: Reader,
    consumer: Annotated[_Text, Query(description="Its name in the inbox.")],
    event_id: Annotated[_Text, Query(description="As the list shows it.")],
) -> Response:
    """One dead letter, whole. Payload and headers are null for a role that may not see them."""
    letter = show_letter(console.url, inbox_of(console), consumer, event_id)
    if letter is None:
        raise _missing(consumer, event_id)
    detail = LetterDetail.of(letter, visible=shows_payloads(identity))
    return with_headers(detail, detail.headers)


@router.post("/retry")
def retry_dead_letters(
    console: ConsoleParts, identity: Operator, body: LetterRetryBody, idempotency_key: IdempotencyKey = None
) -> ChangeItem:
    """Mark one dead letter of a consumer, or all, to be tried again with all of its tries.

    The consumer tries them when it calls `inbox.retries`, and no later than their message comes again. The change's
    `events` counts the dead letters.
    """
    table = inbox_of(console)

    def work(connection: SyncConnection) -> int:
        return retry_letters(connection, table, body.consumer, body.event_id)

    request = change_request(identity, idempotency_key, body.reason)
    return ChangeItem.model_validate(_changed(console, "retry", body, request, work))


@router.post("/skip")
def skip_dead_letter(
    console: ConsoleParts, identity: Operator, body: LetterSkipBody, idempotency_key: IdempotencyKey = None
) -> ChangeItem:
    """Delete one dead letter and mark its event as handled: it has no effect, even if its message comes again."""
    table = inbox_of(console)

    def work(connection: SyncConnection) -> int:
        return int(skip_letter(connection, table, body.consumer, body.event_id))

    request = change_request(identity, idempotency_key, body.reason)
    return ChangeItem.model_validate(_changed(console, "skip", body, request, work))


def inbox_of(console: Console) -> TableName:
    """The inbox that the console serves."""
    return TableName(DEFAULT_INBOX, console.table.schema)


def _changed(
    console: Console,
    action: str,
    body: LetterRetryBody | LetterSkipBody,
    request: Request,
    work: Callable[[SyncConnection], int],
) -> Change:
    """The recorded change. Raises RequestProblem where the one that is named is no dead letter."""
    described = body.model_dump(exclude={"reason"}, exclude_none=True)
    with changing_letters(console.url, inbox_of(console), f"{action} of dead letters") as connection:

        def checked() -> int:
            count = work(connection)
            if body.event_id is not None and not count:
                raise _missing(body.consumer, body.event_id)
            return count

        return recorded(connection, console.table, action, described, request, checked)


def _missing(consumer: str, event_id: str) -> RequestProblem:
    return RequestProblem(404, "letter-missing", f"consumer {consumer!r} has no dead letter {event_id!r}")
