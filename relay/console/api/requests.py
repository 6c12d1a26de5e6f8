"""The headers and parameters that several routes share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from fastapi import Depends, Header

from relay.console.access import AccessRole, Identity, require
from relay.console.conditional import digest
from relay.console.context import shows_payloads
from relay.console.problems import RequestProblem, invalid_request
from relay.outbox.admin.causes import CauseMark
from relay.outbox.admin.changes import LONGEST_KEY, Request
from relay.postgres.codec import Moment

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Reader = Annotated[Identity, Depends(require(AccessRole.READER))]
READING: Final = [Depends(require(AccessRole.READER))]
"""The dependencies of an operation that needs the role alone, and not the name."""
Operator = Annotated[Identity, Depends(require(AccessRole.OPERATOR))]
Admin = Annotated[Identity, Depends(require(AccessRole.ADMIN))]

IdempotencyKey = Annotated[
    str | None,
    Header(
        max_length=LONGEST_KEY,
        description="Chosen by the client, new for each change; a repeated request changes nothing more. "
        "Required, except for a dry run.",
        examples=["5f1c9d52-6f0e-4e43-a3fc-1f9a6a8c7c11"],
    ),
]
IfMatch = Annotated[
    str | None, Header(description="The event's ETag as you saw it: refused when the event was changed since.")
]


def change_request(identity: Identity, key: str | None, reason: str) -> Request:
    """Who asks for a change, and why. Raises RequestProblem without a key."""
    if not key or not key.isprintable():
        message = "a change needs the header Idempotency-Key with a value of your choice, new for each change"
        raise RequestProblem(400, "idempotency-key-missing", message)
    return Request(identity.name, key, reason)


def etag(updated_at: Moment, role: AccessRole, beside: str = "") -> str:
    """An event's version: when it was last changed, in microseconds since 1970, and for which role it is shown.

    A role decides whether an answer has the payload, so an answer for one is not an unchanged answer for another. What
    is shown ``beside`` the event tells answers apart, too, and is no part of the version.
    """
    version = (updated_at - _EPOCH) // timedelta(microseconds=1) if isinstance(updated_at, datetime) else updated_at
    return f'"{version}.{role}{f".{digest(beside.encode())}" if beside else ""}"'


def expected_version(if_match: str | None) -> datetime | None:
    """The ``updated_at`` of an ETag, of any role; None without one. Raises RequestProblem for a foreign ETag."""
    if if_match is None or if_match.strip() == "*":
        return None
    try:
        microseconds, _, _ = if_match.strip().removeprefix("W/").strip('"').partition(".")
        return _EPOCH + timedelta(microseconds=int(microseconds))
    except (ValueError, OverflowError):
        raise RequestProblem(412, "event-moved", f"If-Match: {if_match!r} is no ETag of an event") from None


def cause_of(text: str | None) -> CauseMark | None:
    """The cause of this name. Raises RequestProblem for what no cause is called."""
    try:
        return None if text is None else CauseMark.parse(text)
    except ValueError as error:
        raise invalid_request(f"cause: {error}") from None


def header_filter(text: str | None, identity: Identity) -> tuple[str, str] | None:
    """The name and the value of ``name=value``. Raises RequestProblem for another form, and for a mere reader."""
    if text is None:
        return None
    _refuse_readers("header", identity)
    name, sign, value = text.partition("=")
    if not sign:
        raise invalid_request(f"header: {text!r} is not of the form name=value")
    return name, value


def payload_filter(text: str | None, identity: Identity) -> bytes | None:
    """The bytes to look for. Raises RequestProblem for a mere reader."""
    if text is None:
        return None
    _refuse_readers("payload", identity)
    return text.encode()


def _refuse_readers(field: str, identity: Identity) -> None:
    """What a role may not see it cannot find out by a search either."""
    if not shows_payloads(identity):
        message = f"{field}: a search in what only operators see; {identity.name} has the role {identity.role}"
        raise RequestProblem(403, "forbidden", message)
