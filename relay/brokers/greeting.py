"""What listens on an address, by how it answers: for ``relay-cli check``, when the broker does not answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from relay.brokers.kinds import KINDS
from relay.brokers.server_address import ServerAddress, read_address

_WITHIN: Final = 0.5  # seconds for the connection, and for the answer
_MOST: Final = 3  # addresses of one URL that are asked


class _Server(NamedTuple):
    """A kind of server, by its answer to a request that it takes without a login."""

    name: str
    request: bytes
    matches: Callable[[bytes], bool]


def _servers() -> Iterator[_Server]:
    """In the order of trial: one that speaks first, those that answer, and last the web, which answers everything."""
    known = [_Server(kind.server, kind.hello, kind.recognize) for kind in KINDS.values() if kind.recognize is not None]
    web = KINDS["http"].server
    yield from sorted((one for one in known if one.name != web), key=lambda one: bool(one.request))
    yield _Server("PostgreSQL", bytes.fromhex("00000008 04d2162f"), lambda answer: answer in (b"S", b"N"))  # SSLRequest
    yield from (one for one in known if one.name == web)


def addresses(url: str, port: int) -> list[ServerAddress]:
    """The first hosts and ports of PUBLISHER_URL, with the default port; none for a socket's path."""
    _, _, rest = url.strip().rpartition("://")
    authority = re.split(r"[/?]", rest.rpartition("@")[2], maxsplit=1)[0]
    named = [read_address(part, port) for part in authority.split(",")]
    return [one for one in named if one is not None][:_MOST]


async def what_listens(url: str, port: int) -> str:
    """A sentence for each address of the URL at which something answers; empty where nothing does."""
    names = [(host, port, await _recognize(host, port)) for host, port in addresses(url, port)]
    return "; ".join(f"{host} port {port} is {name}" for host, port, name in names if name)


async def _recognize(host: str, port: int) -> str:
    """The kind of server; empty when no connection is possible."""
    for server in _servers():
        try:
            async with asyncio.timeout(_WITHIN):
                reader, writer = await asyncio.open_connection(host, port)
        except OSError:  # a TimeoutError is one
            return ""
        answer = b""
        try:
            with suppress(OSError):
                writer.write(server.request)
                async with asyncio.timeout(_WITHIN):
                    answer = await reader.read(16)
        finally:
            writer.transport.abort()
        if server.matches(answer):
            return server.name
    return "a server of another kind"
