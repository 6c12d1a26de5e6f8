"""A TCP proxy on 127.0.0.1 that fails on purpose: for tests that need a network in trouble between two real servers.

It runs in a thread of its own, so that tests with and without an event loop may use it. What is asked for holds when
the call returns. ``port`` stays the same through every trouble, refused connections included: a socket that is bound
and never listens keeps it from everybody else (and a client from connecting to itself).
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Container, Coroutine
from contextlib import suppress
from enum import Enum, auto
from types import TracebackType
from typing import Any, Protocol, Self

from tests.support.waiting import pace_async

_CHUNK = 65536
_RESET = struct.pack("ii", 1, 0)  # lingering for no time: a close is a reset


class Mode(Enum):
    """How connections fare."""

    FLOW = auto()
    """Everything passes."""
    REFUSE = auto()
    """Connections are refused, those that were there are reset."""
    SILENCE = auto()
    """Connections are taken and stay open, and nothing passes; what came before or during it stays mute."""
    CUT = auto()
    """Half of the next piece passes, then the connection is reset, every time."""


class Tap(Protocol):
    """Sees everything that passes, piece by piece, and may change replies. ``link`` tells connections apart."""

    def request(self, link: int, data: bytes) -> None:
        """A client has sent this. Raise ConnectionResetError to cut the connection instead of passing it on."""

    def reply(self, link: int, data: bytes) -> bytes:
        """The server has sent this; what the client is to get."""


class TcpProxy:
    """One listening port before one server of 127.0.0.1. ``target`` may be set later than the start."""

    def __init__(self, target: int = 0, bytes_per_second: float | None = None) -> None:
        """``bytes_per_second`` bounds what clients send, as on a slow link; the proxy itself then buffers little."""
        self.target = target
        self.bytes_per_second = bytes_per_second
        self.delay = 0.0
        """Seconds that every piece of a reply is held back; replies keep their order."""
        self.slow_links: Container[int] | None = None
        """The connections, as a tap numbers them, whose replies are held back; None means all."""
        self.accepted = 0
        """Connections taken so far."""
        self.client_ports: dict[int, int] = {}
        """The client's own port of each connection, as a tap numbers them."""
        self.tap: Tap | None = None
        self._guard = self._bound(0)
        self.port: int = self._guard.getsockname()[1]
        self._mode = Mode.FLOW
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Reset every connection and listen no more."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._guard.close()

    @property
    def mode(self) -> Mode:
        """How connections fare now."""
        return self._mode

    def delay_of(self, link: int) -> float:
        """Seconds that the replies of one connection are held back."""
        return self.delay if self.slow_links is None or link in self.slow_links else 0.0

    def set(self, mode: Mode) -> None:
        """Let connections fare so from now on."""
        self._do(self._set(mode))

    def drop_silently(self) -> None:
        """Mute the connections that are there for good, without closing them; new ones are as the mode says."""
        self._do(self._mute())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _set(self, mode: Mode) -> None:
        self._mode = mode
        if mode is Mode.REFUSE:
            await self._end()
        elif self._server is None:
            await self._listen()
        if mode is Mode.SILENCE:
            await self._mute()

    async def _mute(self) -> None:
        for link in self._links:
            link.mute = True

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, sock=self._bound(self.port))

    async def _end(self) -> None:
        if self._server is not None:
            # A connection that is being accepted when its server closes is lost and never closed: asyncio drops the
            # error that it makes. After one turn those have become tasks.
            for listening in self._server.sockets:
                self._loop.remove_reader(listening.fileno())
            await asyncio.sleep(0)
            self._server.close()
            self._server = None
        # Until no task is left, since connections that were being accepted become links only now.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for link in self._links:
                link.reset()
            await asyncio.wait(others, timeout=0.05)

    def _bound(self, port: int) -> socket.socket:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self.bytes_per_second is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _CHUNK)
        sock.bind(("127.0.0.1", port))
        return sock

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.client_ports[self.accepted] = writer.get_extra_info("peername")[1]
        link = _Link(writer, self)
        link.mute = self._mode is Mode.SILENCE
        self._links.add(link)
        try:
            await link.run(reader, self.target)
        finally:
            link.reset()
            self._links.discard(link)


class _Link:
    """One connection through the proxy."""

    def __init__(self, client: asyncio.StreamWriter, proxy: TcpProxy) -> None:
        self.mute: bool = False
        self._number = proxy.accepted
        self._client = client
        self._server: asyncio.StreamWriter | None = None
        self._proxy = proxy

    def reset(self) -> None:
        """Abort both sides: the peers see a reset, and nothing that is buffered is sent."""
        for writer in (self._client, self._server):
            if writer is not None and not writer.transport.is_closing():
                with suppress(OSError):
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()

    async def run(self, reader: asyncio.StreamReader, target: int) -> None:
        """Forward until one side ends; when mute, until the client does."""
        with suppress(OSError):
            if not self.mute:
                await self._connect_and_forward(reader, target)
            while self.mute and await reader.read(_CHUNK):
                pass

    async def _connect_and_forward(self, reader: asyncio.StreamReader, target: int) -> None:
        replies, self._server = await asyncio.open_connection("127.0.0.1", target)
        ways = {
            asyncio.ensure_future(self._forward(reader, self._server)),
            asyncio.ensure_future(self._hold_back(replies)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self._proxy.tap is not None:
                    self._proxy.tap.request(self._number, data)
                if self._proxy.bytes_per_second is not None:
                    await pace_async(len(data) / self._proxy.bytes_per_second)
                if not await self._pass(data, writer):
                    return

    async def _hold_back(self, replies: asyncio.StreamReader) -> None:
        """Replies, each as late as ``delay`` says and in their order."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        async def read() -> None:
            with suppress(OSError):
                while data := await replies.read(_CHUNK):
                    queue.put_nowait((loop.time() + self._proxy.delay_of(self._number), data))
            queue.put_nowait((loop.time(), b""))

        reading = asyncio.ensure_future(read())
        try:
            with suppress(OSError):
                while True:
                    due, data = await queue.get()
                    await pace_async(due - loop.time())
                    if self._proxy.tap is not None:
                        data = self._proxy.tap.reply(self._number, data)
                    if not data or not await self._pass(data, self._client):
                        return
        finally:
            reading.cancel()

    async def _pass(self, data: bytes, writer: asyncio.StreamWriter) -> bool:
        """Hand one piece on, or not; False when the connection is to end."""
        if self.mute:
            return True
        if self._proxy.mode is Mode.CUT:
            writer.write(data[: len(data) // 2])
            with suppress(TimeoutError):
                await asyncio.wait_for(writer.drain(), 1.0)
            return False
        writer.write(data)
        await writer.drain()
        return True
