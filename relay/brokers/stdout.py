"""One JSON object an event, one line each, on standard output.

An event is acknowledged once its whole line has been handed to the operating system. Lines are never mixed: they
are written by one writer at a time, and a line that was begun is finished before the next one, even when its event was
abandoned halfway. The event loop is never blocked: the publisher writes to a pipe, socket or terminal only as much as
fits and waits for room in a full one. A reader that went away makes the publisher unreachable; the process goes on.
The descriptor's own flags stay untouched, since the shell and standard error may share them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import select
import stat
from collections.abc import Sequence

from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.headers import RAW_HEADERS
from relay.core.outcome import ACKNOWLEDGED, OutcomeSink, Unreachable
from relay.core.ports import SingleDestination

_PIECE = 4096
"""Bytes that a blocking pipe or socket which polls as writable takes without blocking (one page)."""
_BLOCK = 1 << 18
"""Bytes written before other work of the event loop gets its turn."""

_json_text = json.JSONEncoder(ensure_ascii=False).encode


class StdoutPublisher(SingleDestination):
    """Writes events as JSON lines; see the module's text."""

    name = "stdout"
    keeps_runs = False

    def __init__(self, fd: int = 1) -> None:
        """``fd`` is the descriptor that the lines go to; it stays open when the publisher is closed."""
        self._fd = fd
        self._can_block = _can_block(self._fd)
        self._turn = asyncio.Lock()
        self._rest = b""
        """The unwritten rest of a line that was begun and then abandoned."""
        self._room: asyncio.Future[str | None] | None = None
        """While the descriptor is full: resolved with None when it takes bytes again, with a reason by abandon."""

    async def open(self) -> None:
        """Do nothing: the descriptor is open."""

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Write one line an event; return when the operating system has them all."""
        async with self._turn:
            at, reason = 0, await self._write_rest()
            while reason is None and at < len(events):
                block, ends = _block(events, at)
                written, reason = await self._write(block)
                whole = sum(1 for end in ends if end <= written)
                if whole:
                    sink([(event, ACKNOWLEDGED) for event in events[at : at + whole]])
                    at += whole
                if reason is not None and written > (begun := ends[whole - 1] if whole else 0):
                    self._rest = block[written : ends[whole]] if begun < written else b""
            if reason is not None and at < len(events):
                lost = Unreachable(reason)
                sink([(event, lost) for event in events[at:]])

    async def probe(self, timeout: float) -> None:
        """Raise unless the descriptor takes bytes within ``timeout`` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._wait_for_room()
        except TimeoutError:
            raise BrokerUnreachable("standard output is full and has no reader") from None
        if self._poll() & (select.POLLERR | select.POLLNVAL):
            raise BrokerUnreachable("standard output is closed: it has no reader")

    async def abandon(self, reason: str) -> None:
        """Stop waiting for the reader: what is not written becomes unreachable."""
        if self._room is not None:
            self._have_room(reason)
        async with self._turn:
            return

    async def close(self) -> None:
        """Abandon what waits. The descriptor stays open: the publisher did not open it."""
        await self.abandon("the publisher was closed")

    def twin(self) -> StdoutPublisher:
        """Return itself: a reader that goes away is never an event's fault."""
        return self

    async def _write_rest(self) -> str | None:
        written, reason = await self._write(self._rest)
        self._rest = self._rest[written:]
        return reason

    async def _write(self, data: bytes) -> tuple[int, str | None]:
        """Write ``data``; return the number of bytes written and, where it is not all of them, the reason."""
        view, written = memoryview(data), 0
        piece = _PIECE if self._can_block else _BLOCK
        while written < len(data):
            if reason := await self._wait_for_room():
                return written, reason
            try:
                written += os.write(self._fd, view[written : written + piece])
            except BlockingIOError:
                await asyncio.sleep(0)
            except OSError as error:
                return written, f"standard output is closed: {error.strerror}"
        await asyncio.sleep(0)
        return written, None

    async def _wait_for_room(self) -> str | None:
        """Wait until a write would not block; a reason when abandoned meanwhile."""
        if not self._can_block or self._poll():
            return None
        if self._room is None:
            loop = asyncio.get_running_loop()
            self._room = loop.create_future()
            loop.add_writer(self._fd, self._have_room, None)
        return await asyncio.shield(self._room)

    def _have_room(self, reason: str | None) -> None:
        if self._room is not None:
            asyncio.get_running_loop().remove_writer(self._fd)
            self._room.set_result(reason)
            self._room = None

    def _poll(self) -> int:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        return next((flags for _, flags in poll.poll(0)), 0)


def line(event: OutboxEvent) -> str:
    """One event as JSON on one line.

    ``headers`` is the column's own JSON object, numbers digit for digit (what is not an object becomes the one
    member ``X-Raw-Headers``); ``payload`` is text, or base64 when it is not UTF-8, then marked by
    ``"payload_encoding": "base64"``.
    """
    try:
        payload, encoding = event.payload.decode(), ""
    except UnicodeDecodeError:
        payload, encoding = base64.b64encode(event.payload).decode(), ',"payload_encoding":"base64"'
    headers = event.headers.strip().replace("\n", " ")  # a bare line break in JSON text is mere white space
    if not headers.startswith("{"):
        headers = _json_text({RAW_HEADERS: headers})
    key = "null" if event.partition_key is None else _json_text(event.partition_key)
    return (
        f'{{"event_id":"{event.event_id}","event_type":{_json_text(event.event_type)},"partition_key":{key},'
        f'"payload":{_json_text(payload)}{encoding},"headers":{headers}}}\n'
    )


def _block(events: Sequence[OutboxEvent], start: int) -> tuple[bytes, list[int]]:
    """The lines of as many events from ``start`` on as make one block, and where in it each line ends."""
    lines: list[bytes] = []
    ends: list[int] = []
    size = 0
    while start + len(lines) < len(events) and size < _BLOCK:
        lines.append(line(events[start + len(lines)]).encode())
        size += len(lines[-1])
        ends.append(size)
    return b"".join(lines), ends


def _can_block(fd: int) -> bool:
    """Whether a write may have to wait for a reader; a file and /dev/null never do (and cannot be polled)."""
    try:
        return stat.S_ISFIFO(mode := os.fstat(fd).st_mode) or stat.S_ISSOCK(mode) or os.isatty(fd)
    except OSError:
        return False
