"""The event loop of the daemon: uvloop's, but what may hang for one destination has a thread that no other one needs.

uvloop looks names up in a pool of four threads for the whole process: a few names whose server does not answer held up
every destination and the database. Here one lookup for each name is under way at a time, in a thread of its own, and
all that wait share its answer. While it hangs, the addresses that it gave last are used. A name's addresses are raced
(``relay.core.racing``). Calls by ``asyncio.to_thread`` have a thread each, for the same reason.

A lookup that hangs ends when the system's resolver gives up. Its thread delays no exit.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import Any, Final, TypeVar, cast

import uvloop

from relay.core.racing import connect_first

_HANGS: Final = 1.0  # seconds after which a lookup's last answer is used
_MOST_KEPT: Final = 10_000  # answers


Question = tuple[str | bytes, str | bytes | int | None, int, int, int, int]
"""The arguments of a lookup."""
Infos = list[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]]
Connect = Callable[..., Awaitable[tuple[asyncio.BaseTransport, asyncio.BaseProtocol]]]
T = TypeVar("T")


class RelayLoop(uvloop.Loop):
    """See the module's text."""

    def __init__(self) -> None:
        super().__init__()
        self._lookups: dict[Question, asyncio.Future[Infos]] = {}
        """What is under way."""
        self._answers: dict[Question, Infos] = {}
        """What each gave last."""

    async def getaddrinfo(  # type: ignore[override] # uvloop's types name each form of an address
        self,
        host: str | bytes | None,
        port: str | bytes | int | None,
        *,
        family: int = 0,
        type: int = 0,  # noqa: A002 - its name in the standard
        proto: int = 0,
        flags: int = 0,
    ) -> Infos:
        """As the standard says."""
        if host is None or _is_numeric(host):
            infos = await super().getaddrinfo(host, port, family=family, type=type, proto=proto, flags=flags)
            return cast("Infos", infos)
        question = (host, port, family, type, proto, flags)
        if (lookup := self._lookups.get(question)) is None:
            lookup = self._lookups[question] = self._in_thread(lambda: cast("Infos", socket.getaddrinfo(*question)))
            lookup.add_done_callback(lambda done: self._looked_up(question, done))
        if question in self._answers:
            await asyncio.wait({lookup}, timeout=_HANGS)
            if not lookup.done():
                return self._answers[question]
        return await asyncio.shield(lookup)  # the caller may give up, and others wait for it, too

    def _looked_up(self, question: Question, lookup: asyncio.Future[Infos]) -> None:
        del self._lookups[question]
        if not lookup.cancelled() and lookup.exception() is None:
            if len(self._answers) >= _MOST_KEPT:
                self._answers.clear()
            self._answers[question] = lookup.result()

    async def create_connection(  # type: ignore[override] # uvloop's types are two forms, with a host and without
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        family: int = 0,
        proto: int = 0,
        flags: int = 0,
        sock: socket.socket | None = None,
        **options: Any,  # noqa: ANN401 - those of uvloop that are not needed here
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """As the standard says; the addresses of a name are raced."""
        connect = cast("Connect", super().create_connection)
        if host is None or sock is not None or options.get("local_addr") is not None:
            return await connect(
                protocol_factory, host, port, family=family, proto=proto, flags=flags, sock=sock, **options
            )
        infos = await self.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, proto=proto, flags=flags)
        connected = await connect_first([(info[0], info[4]) for info in infos])
        if options.get("ssl") and options.get("server_hostname") is None:
            options["server_hostname"] = host
        try:
            return await connect(protocol_factory, sock=connected, **options)
        except BaseException:
            connected.close()
            raise

    def run_in_executor(  # type: ignore[override] # uvloop says that it is a coroutine
        self, executor: Executor | None, func: Callable[..., T], *args: object
    ) -> asyncio.Future[T]:
        """As the standard says; without an executor in a thread of its own."""
        if executor is not None:
            return cast("asyncio.Future[T]", super().run_in_executor(executor, func, *args))
        return self._in_thread(lambda: func(*args))

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()

        def finish(set_outcome: Callable[[], None]) -> None:
            if not future.cancelled():
                set_outcome()

        def run() -> None:
            try:
                outcome = partial(future.set_result, work())
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                outcome = partial(future.set_exception, error)
            with suppress(RuntimeError):  # the loop is closed
                self.call_soon_threadsafe(finish, outcome)

        threading.Thread(target=run, name="relay-call", daemon=True).start()
        return future


def _is_numeric(host: str | bytes) -> bool:
    try:
        ip_address((host.decode() if isinstance(host, bytes) else host).partition("%")[0])
    except ValueError:
        return False
    return True
