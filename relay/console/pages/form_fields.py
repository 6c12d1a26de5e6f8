"""What the fields of forms send, as values. Each reader raises RequestProblem with what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, TypeVar
from uuid import UUID

from pydantic import BaseModel, Field, ValidationError

from relay.console.problems import invalid_request
from relay.core.event import Status

Text = Annotated[str, Field(max_length=500)]
Model = TypeVar("Model", bound=BaseModel)


def as_request(model: type[Model], values: Mapping[str, object]) -> Model:
    """The request that the API would get."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors())
        raise invalid_request(problems) from error


def uuid_field(text: str, noun: str) -> UUID:
    """The id of a thing that ``noun`` names, ``an event``."""
    try:
        return UUID(text.strip())
    except ValueError:
        raise invalid_request(f"{text!r} is not the id of {noun}, which is a UUID") from None


def status_field(text: str) -> tuple[Status, ...]:
    """One status, or all of them."""
    if not text:
        return tuple(Status)
    try:
        return (Status(text),)
    except ValueError:
        raise invalid_request(f"{text!r} is not a status") from None


def text_field(value: str) -> str | None:
    """A text, or None for an empty field."""
    if "\x00" in value:
        raise invalid_request("a field holds a NUL character, which no event has")
    return value.strip() or None


def time_field(text: str) -> datetime | None:
    """What a date field sends, in UTC."""
    if not text.strip():
        return None
    try:
        value = datetime.fromisoformat(text.strip())
    except ValueError:
        raise invalid_request(f"{text!r} is not a time; write 2026-03-10T12:00") from None
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        message = f"{text!r} has no time in UTC: it must be within the years 1 to 9999"
        raise invalid_request(message) from None
