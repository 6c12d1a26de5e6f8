"""The daemon's event loop: a lookup or a call that hangs holds up no other, and an address that is silent none."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from relay.app.loop import Infos, RelayLoop
from relay.core.racing import connect_first
from tests.support.waiting import patience

SILENT = "192.0.2.1"
"""Never routed (RFC 5737)."""


class Names:
    """The system's resolver: some names hang until ``answer``."""

    def __init__(self) -> None:
        self.addresses = {"good.test": ["127.0.0.1"], "hangs.test": ["127.0.0.1"], "two.test": [SILENT, "127.0.0.1"]}
        self.hanging = {"hangs.test"}
        self.answer = threading.Event()
        self.asked: Counter[str] = Counter()

    def getaddrinfo(self, host: str, port: int, *_: int) -> Infos:
        """As socket's."""
        self.asked[host] += 1
        if host in self.hanging:
            self.answer.wait(patience())
        if host not in self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        kind = socket.AF_INET, socket.SOCK_STREAM, 6, ""
        return [(*kind, (address, port)) for address in self.addresses[host]]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    known = Names()
    monkeypatch.setattr(socket, "getaddrinfo", known.getaddrinfo)
    yield known
    known.answer.set()


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(patience()):
            await work()

    with asyncio.Runner(loop_factory=RelayLoop) as runner:
        runner.run(bounded())


async def look_up(host: str) -> list[str]:
    infos = await asyncio.get_running_loop().getaddrinfo(host, 80, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in infos]


def test_a_name_that_hangs_is_asked_once_and_holds_up_no_other(names: Names) -> None:
    async def work() -> None:
        hanging = [asyncio.ensure_future(look_up("hangs.test")) for _ in range(50)]
        assert await look_up("good.test") == ["127.0.0.1"]
        hanging[0].cancel()  # one that gives up leaves the others their answer
        await asyncio.wait({hanging[0]})
        assert names.asked["hangs.test"] == 1
        assert not any(one.done() for one in hanging[1:])
        names.answer.set()
        assert await asyncio.gather(*hanging[1:]) == [["127.0.0.1"]] * 49

    run(work)


def test_the_last_addresses_are_used_while_a_lookup_hangs_and_not_after_it_failed(names: Names) -> None:
    async def work() -> None:
        await look_up("good.test")
        names.hanging.add("good.test")
        assert await look_up("good.test") == ["127.0.0.1"]
        del names.addresses["good.test"]
        names.answer.set()
        with pytest.raises(socket.gaierror):
            await asyncio.gather(*(look_up("good.test") for _ in range(2)))

    run(work)


def test_a_call_in_a_thread_that_hangs_holds_up_no_other(names: Names) -> None:
    async def work() -> None:
        hanging = [asyncio.ensure_future(asyncio.to_thread(names.answer.wait)) for _ in range(100)]
        assert await asyncio.to_thread(lambda: 1) == 1
        assert not any(one.done() for one in hanging)
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)
        names.answer.set()
        await asyncio.gather(*hanging)

    run(work)


def test_a_connection_is_made_to_the_address_that_answers(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first address drops packets, for as long as the connection may take."""

    async def work() -> None:
        drop_packets(monkeypatch)
        async with server() as port:
            reader, writer = await asyncio.open_connection("two.test", port)
            assert writer.get_extra_info("peername")[0] == "127.0.0.1"
            assert writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert await reader.read() == b""
            writer.close()

    run(work)


def test_where_none_answers_the_error_says_why(names: Names) -> None:
    async def work() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("good.test", unused.getsockname()[1])
        with pytest.raises(socket.gaierror):
            await asyncio.open_connection("unknown.test", 80)
        with pytest.raises(OSError, match="no address"):
            await connect_first([])

    run(work)


def test_tls_checks_the_name_and_not_the_address(names: Names) -> None:
    asked: list[object] = []

    class Asked(ssl.SSLContext):
        def wrap_bio(self, *values: Any, **options: Any) -> ssl.SSLObject:
            asked.append(options["server_hostname"])
            return super().wrap_bio(*values, **options)

    async def work() -> None:
        async with server() as port:
            with pytest.raises(OSError):  # noqa: PT011 - the server knows no TLS
                await asyncio.open_connection("good.test", port, ssl=Asked(ssl.PROTOCOL_TLS_CLIENT))
        assert asked == ["good.test"]

    run(work)


@asynccontextmanager
async def server() -> AsyncIterator[int]:
    """A server that closes each connection; its port. uvloop never ends while one is open."""
    listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()


def drop_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections to SILENT neither succeed nor fail."""
    connect = RelayLoop.sock_connect

    async def sock_connect(loop: RelayLoop, sock: socket.socket, address: tuple[Any, ...]) -> None:
        if address[0] == SILENT:
            await asyncio.Event().wait()
        await connect(loop, sock, address)

    monkeypatch.setattr(RelayLoop, "sock_connect", sock_connect)
