"""The store's input and output: events, versions, positions. Pure; imports the standard library only.

A *stream* is the history of one thing; its events have *versions* 1, 2, 3 … A *position* (``sequence_num``) orders the
events of all streams and tenants.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from relay.core.checkpoint import Checkpoint
from relay.core.errors import EventError

Json = Mapping[str, object] | Sequence[object] | str | int | float | bool | None

LARGEST_VERSION: Final = 2**31 - 1
LARGEST_POSITION: Final = 2**63 - 1
MAX_EVENT_BYTES: Final = 16 * 2**20
"""Of type, meta and data of one event, as JSON text. A larger one holds up all writers of a gapless store."""
MOST_PAGE_BYTES: Final = 16 * 2**20
"""Bytes of bodies and metadata that end a page; it has at least one event."""
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class Expected(IntEnum):
    """Expectations of an append other than a version number."""

    ANY = -1
    """Any version: the append follows it."""
    NO_STREAM = 0
    """The stream has no event yet."""


ANY: Final = Expected.ANY
NO_STREAM: Final = Expected.NO_STREAM


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to append. Raises ``EventError``, naming the field, for content that PostgreSQL cannot store."""

    type: str
    """What happened, for example ``MoneyDeposited``."""
    data: Json = field(default=None, repr=False)
    """The body: any value with a JSON form; None is stored as NULL."""
    meta: Mapping[str, object] = field(default_factory=dict, repr=False)
    """Metadata: who, why, from where."""
    event_id: UUID | str | None = None
    """An id of the application's, unique within the stream: a repeated append of the same events writes nothing.
    Without one, each append is another one. Stored beside the event; ``StoredEvent`` does not have it."""
    data_json: str | None = field(init=False, repr=False, compare=False)
    meta_json: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.type, str):
            raise EventError(f"type: a {type(self.type).__name__}; pass a string")
        if not self.type:
            raise EventError("type: empty; it must say what happened, for example MoneyDeposited")
        _check_text("type", self.type)
        if not isinstance(self.meta, Mapping):
            raise EventError(f"meta: a {type(self.meta).__name__}; pass a mapping")
        if self.event_id is not None:
            object.__setattr__(self, "event_id", checked_id("event_id", self.event_id))
        object.__setattr__(self, "data_json", None if self.data is None else _json("data", self.data))
        object.__setattr__(self, "meta_json", _json("meta", dict(self.meta)))


class StoredEvent(NamedTuple):
    """An event of the store. The field order is the column order of the reading statements."""

    sequence_num: int
    """Its position among the events of all tenants."""
    tenant_id: UUID
    stream_id: UUID
    version: int
    """Its place in its stream, from 1."""
    type: str
    meta: dict[str, object]
    data: object
    log_date: datetime
    """When it was written, by the database's clock (the start of its transaction)."""

    @property
    def checkpoint(self) -> Checkpoint:
        """From where a reader continues after this event."""
        return Checkpoint(self.sequence_num, self.tenant_id, self.stream_id, self.version, self.log_date)


class Appended(NamedTuple):
    """The positions and version of appended events."""

    first_sequence_num: int
    last_sequence_num: int
    version: int
    """The version that the stream has now."""


def checked_events(events: Iterable[NewEvent], max_bytes: int) -> list[NewEvent]:
    """The events as a list.

    Raises EventError when there is none, when one is not a ``NewEvent`` or larger than ``max_bytes``, and when an id is
    missing beside others or stands for two events: a repetition of the append could then not be recognized.
    """
    listed = list(events)
    if not listed:
        raise EventError("events: empty; an append needs at least one event")
    for event in listed:
        if not isinstance(event, NewEvent):
            raise EventError(f"events: a {type(event).__name__} among them; pass relay.eventstore.NewEvent")
        _check_size(event, max_bytes)
    ids = [event.event_id for event in listed if event.event_id is not None]
    if ids and len(ids) < len(listed):
        raise EventError("event_id: missing in some of the events; give an id to all events of an append or to none")
    if len(set(ids)) < len(ids):
        raise EventError("event_id: the same for two events of one append; give each event an id of its own")
    return listed


def _check_size(event: NewEvent, max_bytes: int) -> None:
    texts = event.type, event.meta_json, event.data_json or ""
    if 4 * sum(map(len, texts)) <= max_bytes:  # no character takes more than 4 bytes
        return
    size = sum(len(text.encode()) for text in texts)
    if size > max_bytes:
        raise EventError(
            f"event {event.type[:100]!r}: {size} bytes of type, meta and data; at most {max_bytes} are allowed. Store "
            "large content elsewhere and refer to it, or connect with a larger max_event_bytes"
        )


def checked_id(name: str, value: UUID | str) -> UUID:
    """A UUID, from a UUID or its text; raises EventError naming the argument for anything else."""
    if isinstance(value, UUID):
        return value
    try:
        return UUID(str(value))
    except ValueError:
        raise EventError(f"{name}: {value!r} is not a UUID") from None


def checked_version(expected: object) -> int:
    """An expected version as a plain number; raises EventError for an impossible one.

    One that no stream can reach is a conflict like any other: the append finds out the actual version.
    """
    if isinstance(expected, bool) or not isinstance(expected, int) or expected < -1:
        raise EventError(f"expected_version: {expected!r}; pass a version of 0 or more, ANY or NO_STREAM")
    return int(expected)


def checked_position(name: str, value: object) -> int:
    """A position, 0 being the one before the first event; raises EventError for an impossible one."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_POSITION:
        raise EventError(f"{name}: {value!r}; pass a position of 0 or more")
    return value


def _json(name: str, value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise EventError(f"{name}: cannot be written as JSON: {error}") from None
    if "\\u0000" in text and _ESCAPED_NUL.search(text):
        raise EventError(f"{name}: a NUL character, which PostgreSQL cannot store")
    _check_text(name, text)
    return text


def _check_text(name: str, text: str) -> None:
    if "\x00" in text:
        raise EventError(f"{name}: a NUL character, which PostgreSQL cannot store")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise EventError(f"{name}: a lone surrogate, which has no UTF-8 form") from None
