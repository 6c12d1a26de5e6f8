"""Values on their way into and out of PostgreSQL: ids and texts as arrays, fences and other times, JSON.

Decoding does not depend on the session's time zone, date style and encoding. The arrays are text, for values sent so
often that the driver's own way of writing a list is felt; they are bound as a parameter like any other value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from struct import Struct
from typing import Final, TypeAlias

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Format

from relay.core.event import Fence

EPOCH_2000_US: Final = 946_684_800_000_000
"""PostgreSQL's time 0, in microseconds since 1970."""

COPY_HEADER: Final = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
COPY_TRAILER: Final = b"\xff\xff"
"""The first and the last bytes of a binary COPY, in both directions."""

Moment: TypeAlias = datetime | str
"""A time in UTC, or ``infinity``, ``-infinity`` or a year that Python's calendar does not have, as text."""

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - one spelling for the value and its type
_MICROSECONDS: Final = Struct("!q")
_INFINITE: Final = {2**63 - 1: "infinity", -(2**63): "-infinity"}

encode_json: Final = json.JSONEncoder(ensure_ascii=False).encode
_decode: Final = json.JSONDecoder().decode
_raw_decode: Final = json.JSONDecoder().raw_decode


def id_array(event_ids: Iterable[str]) -> str:
    """Canonical UUIDs need no quoting, and one join is all it costs."""
    return "{" + ",".join(event_ids) + "}"


def text_array(texts: Iterable[str | None]) -> str:
    """Any texts, and NULL for None; the driver's way costs a tenth of an event store's append."""
    quoted = ("NULL" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts)
    return "{" + ",".join(quoted) + "}"


def storable_text(text: str) -> str:
    """``text`` as TEXT can hold it: NUL and lone surrogates are replaced."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def decode_json(text: str | bytes) -> object:
    """What PostgreSQL wrote as JSON: UTF-8 without blanks, which ``json.loads`` spends half its time looking for."""
    return _raw_decode(text if isinstance(text, str) else str(text, "utf-8"))[0]


def decode_time(data: Buffer) -> datetime:
    """A binary timestamp with time zone, exact to the microsecond. Raises OverflowError outside Python's calendar.

    It is in UTC: in a zone with daylight saving time two instants an hour apart may compare equal as datetimes of that
    zone, which no fence may.
    """
    return _EPOCH + timedelta(microseconds=_MICROSECONDS.unpack(data)[0])


def fence_at(seconds: float) -> Fence:
    """The fence of this time in seconds since 1970, which a float holds exactly to the microsecond."""
    return Fence(_EPOCH + timedelta(microseconds=round(seconds * 1_000_000) - EPOCH_2000_US))


class FenceLoader(Loader):
    """Loads a fence. All rows of a claim have one fence, so that the last value is kept: decoding costs once."""

    format = Format.BINARY

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self._data: bytes = b""
        self._fence = Fence(_EPOCH)

    def load(self, data: Buffer) -> Fence:
        """The fence that ``data`` holds."""
        if data != self._data:
            self._data = bytes(data)
            self._fence = Fence(decode_time(data))
        return self._fence


class MomentLoader(Loader):
    """Loads any timestamp with time zone: a row made by hand must not end an operation."""

    format = Format.BINARY

    def load(self, data: Buffer) -> Moment:
        """The time that ``data`` holds."""
        try:
            return decode_time(data)
        except OverflowError:
            microseconds = _MICROSECONDS.unpack(data)[0]
            return _INFINITE.get(microseconds, "infinity" if microseconds > 0 else "-infinity")


class JsonLoader(Loader):
    """Loads a ``json`` in half the driver's time, which looks for the text's encoding first."""

    format = Format.BINARY

    def load(self, data: Buffer) -> object:
        """The value that ``data`` holds."""
        return _decode(str(data, "utf-8"))


class JsonbLoader(Loader):
    """Loads a ``jsonb``: a version, and what PostgreSQL wrote as JSON."""

    format = Format.BINARY

    def load(self, data: Buffer) -> object:
        """The value that ``data`` holds."""
        return _raw_decode(str(data, "utf-8"), 1)[0]


def _adapters(**loaders: type[Loader]) -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    for name, loader in loaders.items():
        adapters.register_loader(name, loader)
    return adapters


FENCES: Final = _adapters(timestamptz=FenceLoader)
"""For connections whose only times are fences."""
MOMENTS: Final = _adapters(timestamptz=MomentLoader)
"""For connections that read any row."""
DOCUMENTS: Final = _adapters(json=JsonLoader, jsonb=JsonbLoader)
"""For connections that read many JSON values."""
