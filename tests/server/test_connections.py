"""What silent, slow and many clients do to the server: nothing that the next client would notice."""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from relay.server import ServerLimits, ServerOptions, StatusServer, bounded_server
from relay.server.connections import ClientConnection, connection_limit
from tests.server.test_server import ScriptedView
from tests.support.waiting import eventually, patience

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: relay\r\n\r\n"


@pytest.fixture(autouse=True)
def short_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines are looked at every 0.1 s instead of every second."""
    monkeypatch.setattr(bounded_server, "_TICK", 0.1)


@asynccontextmanager
async def serving(limits: ServerLimits, view: ScriptedView | None = None) -> AsyncIterator[StatusServer]:
    server = StatusServer(view or ScriptedView(), ServerOptions("127.0.0.1", 0, limits))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def client(server: StatusServer) -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection(*server.address)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def answer(streams: Streams) -> bytes:
    """The first line of an answer to a request for /healthz; empty when the server has closed the connection."""
    reader, writer = streams
    writer.write(REQUEST)
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), patience(5))
        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
    return head.partition(b"\r\n")[0]


async def closed(streams: Streams) -> bool:
    """Whether the server closes the connection; raises TimeoutError while it stays open."""
    try:
        return await asyncio.wait_for(streams[0].read(), patience(10)) is not None
    except ConnectionError:
        return True


async def test_a_new_client_takes_the_place_of_the_one_that_has_been_silent_longest() -> None:
    async with serving(ServerLimits(connections=4)) as server, AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(client(server)) for _ in range(4)]
        await eventually(lambda: server.connections == 4, what="four connections")

        newcomer = await stack.enter_async_context(client(server))

        assert await answer(newcomer) == b"HTTP/1.1 200 OK"
        assert await closed(silent[0])
        assert [await answer(streams) for streams in silent[1:]] == [b"HTTP/1.1 200 OK"] * 3
        assert server.connections == 4


async def test_a_client_that_speaks_keeps_its_place_among_silent_ones() -> None:
    async with serving(ServerLimits(connections=4)) as server, AsyncExitStack() as stack:
        regular = await stack.enter_async_context(client(server))
        for _ in range(12):
            assert await answer(regular) == b"HTTP/1.1 200 OK"
            await stack.enter_async_context(client(server))
        assert await answer(regular) == b"HTTP/1.1 200 OK"
        assert server.connections <= 4


async def nothing(_: Streams) -> None:
    """A client that connects and sends nothing."""


async def half_a_head(streams: Streams) -> None:
    streams[1].write(REQUEST[:30])


async def a_request_and_half_another(streams: Streams) -> None:
    assert await answer(streams) == b"HTTP/1.1 200 OK"
    streams[1].write(REQUEST[:30])


@pytest.mark.parametrize("behave", [nothing, half_a_head, a_request_and_half_another])
async def test_a_request_must_arrive_whole_within_its_deadline(behave: Callable[[Streams], object]) -> None:
    async with serving(ServerLimits(request_seconds=0.2)) as server, client(server) as streams:
        await behave(streams)  # type: ignore[misc]

        assert await closed(streams)
        assert server.connections == 0


async def test_the_next_byte_does_not_extend_the_deadline_of_a_request() -> None:
    async with serving(ServerLimits(request_seconds=0.2)) as server, client(server) as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nX: ")
        end = time.monotonic() + patience(10)
        while not reader.at_eof():
            assert time.monotonic() < end, "the connection is still open"
            writer.write(b"x")
            try:
                await asyncio.wait_for(reader.read(1), 0.02)
            except TimeoutError:
                continue
            except ConnectionError:
                break


async def test_a_client_that_resets_its_connection_at_once_leaves_none_behind() -> None:
    async with serving(ServerLimits(connections=4)) as server:
        for _ in range(50):
            one = socket.create_connection(server.address)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()
        async with client(server) as streams:
            assert await answer(streams) == b"HTTP/1.1 200 OK"
        await eventually(lambda: server.connections == 0, 10, "the connections to end")


async def test_a_fault_while_accepting_does_not_close_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(ServerLimits()) as server:
        with monkeypatch.context() as fault:
            fault.setattr(ClientConnection, "start", lambda *_: 1 / 0)
            async with client(server) as streams:
                assert await closed(streams)

        async with client(server) as streams:
            assert await answer(streams) == b"HTTP/1.1 200 OK"


class Wide(ScriptedView):
    """Metrics that do not fit into any socket's buffer."""

    def metrics(self, accept: str) -> object:  # type: ignore[override]
        answer = super().metrics(accept)
        return answer._replace(body=b"#" * 50_000_000)


async def test_an_answer_must_be_read_within_its_deadline() -> None:
    limits = ServerLimits(answer_seconds=0.2)
    async with serving(limits, Wide()) as server, client(server) as streams:
        streams[1].write(b"GET /metrics HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n")
        await eventually(lambda: server.connections == 1, what="the connection")

        await eventually(lambda: server.connections == 0, 10, "the server to close the connection")


async def test_the_bound_leaves_three_quarters_of_the_descriptors_to_database_and_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bounds = []
    for soft in (64, 256, 1024, 1_048_576, resource.RLIM_INFINITY):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        bounds.append(connection_limit())
    assert bounds == [16, 64, 128, 128, 128]
