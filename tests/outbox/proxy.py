"""A TCP proxy before PostgreSQL that is slow, swallows everything, or cuts a connection at a chosen moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.support.waiting import pace_async

Watch = Callable[[bytes], "str | None"]
"""Sees what a client sends: ``lose reply`` forwards it and cuts the client off, ``lose request`` only cuts."""


class Proxy:
    """Forwards until told otherwise. ``url`` is the database's address through it."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.watch: Watch = lambda data: None
        self.received = 0  # bytes from clients, swallowed ones too
        self.bytes_per_second: float | None = None
        """The pace of replies, over all connections; None for no limit."""

    @property
    def url(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return self._target._replace(netloc=f"{self._target.username}@{host}:{port}").geturl()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.close()

    def swallow(self) -> None:
        """From now on nothing passes, and no connection is closed."""
        self._flowing.clear()

    def flow(self) -> None:
        """Let everything pass again, what was held back too."""
        self._flowing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(self._target.hostname, self._target.port)
        self._writers |= {writer, forth}
        for coroutine in (self._requests(reader, forth, writer), self._replies(back, writer)):
            task = asyncio.ensure_future(coroutine)
            self._tasks.add(task)

    async def _requests(
        self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, client: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                self.received += len(data)
                await self._flowing.wait()
                fate = self.watch(data)
                if fate is not None:
                    client.transport.abort()
                if fate != "lose request":
                    server.write(data)
                    await server.drain()
                if fate == "lose request":
                    break
        server.close()

    async def _replies(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._flowing.wait()
                if self.bytes_per_second is not None:
                    await pace_async(len(data) / self.bytes_per_second)
                if client.transport.is_closing():
                    continue
                client.write(data)
                await client.drain()
        client.close()
