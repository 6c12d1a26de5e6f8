"""How values come out of the database, independent of the session's time zone, date style and encoding."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from struct import Struct

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Format

from relay.core.event import Fence

_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - one spelling for the value and its type
_MICROSECONDS = Struct("!q")


class FenceLoader(Loader):
    """A binary timestamp with time zone as a UTC datetime, exact to the microsecond.

    In a zone with daylight saving time two instants an hour apart may compare equal as datetimes of that zone, which
    no fence may. All rows of a claim bear one fence, so that the value before is kept: decoding costs once.
    """

    format = Format.BINARY

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self._data: bytes = b""
        self._value = Fence(_EPOCH)

    def load(self, data: Buffer) -> Fence:
        """The fence that ``data`` holds."""
        if data != self._data:
            self._data = bytes(data)
            self._value = Fence(_EPOCH + timedelta(microseconds=_MICROSECONDS.unpack(data)[0]))
        return self._value


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_loader("timestamptz", FenceLoader)
    return adapters


ADAPTERS = _adapters()
