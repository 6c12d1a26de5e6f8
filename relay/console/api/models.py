"""What the models of several topics share, and what several return. Times are ISO 8601 in UTC, or ``infinity``."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import Response
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from relay.core.durations import time_text
from relay.core.json_text import with_member
from relay.postgres.codec import Moment

Words = Annotated[str, Field(max_length=500, pattern=r"^[^\x00]*$")]
"""Text without NUL, which PostgreSQL cannot store."""


def moment_text(moment: Moment | None) -> Any:  # noqa: ANN401 - text, or None for None
    """A time as the API writes it."""
    return None if moment is None else time_text(moment, "microseconds")


def _in_utc(time: datetime) -> datetime:
    """Raises ValueError for the hours at the ends of the calendar that have no time in UTC."""
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("the time in UTC must be within the years 1 to 9999") from None


Time = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A time that a request names, in UTC."""

_CHANGE_ID: Final = "0190b0a0-0000-7000-8000-0000000000aa"
TIME: Final = "2026-03-10T12:00:00.000000Z"
Encoding = Literal["utf-8", "base64", "hidden"]

Stamp = Annotated[str, BeforeValidator(moment_text)]
"""A time of the database, as the API writes it."""


class ApiModel(BaseModel):
    """What an operation takes or returns. One that is made of a row takes its fields by their names, and no others."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)


class DryRun(ApiModel):
    """What a change would do now."""

    dry_run: Literal[True] = True
    events: int
    exact: bool = Field(description="False when there are more.")


class ChangeItem(ApiModel):
    """One change: who, when, what, how many, why."""

    change_id: UUID = Field(examples=[_CHANGE_ID])
    action: Literal["retry", "replay", "bury", "cancel", "prune", "pause", "resume", "skip"]
    selection: Annotated[dict[str, Any], BeforeValidator(json.loads)]
    changed_by: str
    reason: str
    state: Literal["running", "complete", "stopped", "failed", "interrupted"]
    events: int = Field(description="Events changed so far.")
    expected: int | None = Field(description="Events that were counted before it began.")
    error: str | None
    may_have_been_sent: int | None = Field(
        description="Of a cancellation: cancelled events that a relay may have had before; else null."
    )
    started_at: Stamp
    updated_at: Stamp


def payload_text(payload: bytes) -> str | None:
    """The payload as text, or None for one that is not UTF-8 or has a NUL character."""
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text


def stored(headers: str, payload: bytes, *, visible: bool) -> dict[str, str | None]:
    """The three fields of an answer for headers and payload."""
    if not visible:
        return {"headers": None, "payload": None, "payload_encoding": "hidden"}
    text = payload_text(payload)
    if text is None:
        return {"headers": headers, "payload": base64.b64encode(payload).decode(), "payload_encoding": "base64"}
    return {"headers": headers, "payload": text, "payload_encoding": "utf-8"}


def with_headers(detail: BaseModel, headers: str | None, etag: str = "") -> Response:
    """The answer, into which the headers go as PostgreSQL wrote them: no number loses a digit."""
    text = with_member(detail.model_dump_json(exclude={"headers"}), "headers", headers or "null")
    return Response(text, media_type="application/json", headers={"ETag": etag} if etag else None)
