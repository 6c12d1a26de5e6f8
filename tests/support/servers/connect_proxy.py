"""A proxy that opens tunnels by CONNECT, on 127.0.0.1 and in the test's own event loop; it fails on purpose.

Every tunnel leads to 127.0.0.1, whatever its host is called: tests look at what the proxy was asked for.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

_CHUNK = 65_536


class ConnectProxy:
    """``async with ConnectProxy() as proxy``; ``answer`` may be changed meanwhile."""

    def __init__(self, login: str | None = None) -> None:
        """``login`` is the value of Proxy-Authorization that it demands."""
        self.answer: bytes | None = b""
        """What it answers instead of opening a tunnel: nothing at all with None, and then it closes unless None."""
        self.silent_for = "\n"
        """It answers no request whose first line has this."""
        self.asked: list[str] = []
        """The first line of each request."""
        self.open = 0
        """Connections that are open."""
        self._login = login
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.open += 1
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._tunnel(reader, writer)
        finally:
            self.open -= 1
            self._tasks.discard(task)
            writer.close()

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.split("\r\n")
        self.asked.append(lines[0])
        if self.answer is None or self.silent_for in lines[0]:
            await reader.read()
            return
        answer = self.answer
        if not answer and self._login is not None and f"Proxy-Authorization: {self._login}" not in lines:
            answer = b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n"
        if answer:
            writer.write(answer)
            await writer.drain()
            return
        port = int(lines[0].split()[1].rpartition(":")[2])
        there, back = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            both = [asyncio.ensure_future(_copy(reader, back)), asyncio.ensure_future(_copy(there, writer))]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for one in both:
                one.cancel()
        finally:
            back.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
