"""The bytes of one TCP or TLS connection, and what the protocol above them is asked for."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

from relay.brokers.http.errors import Answer
from relay.core.errors import reason_of
from relay.core.headers import Header


class Origin(NamedTuple):
    """What connections are shared by: scheme, host in its ASCII form, port."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        """Without path, query and login: they may hold secrets."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """The value of Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return host if self.port == usual else f"{host}:{self.port}"


class HttpRequest(NamedTuple):
    """One POST."""

    scheme: str
    authority: str
    target: str
    headers: list[Header]
    body: bytes


class HttpConnection(Protocol):
    """HTTP over one wire."""

    ready: asyncio.Future[None]
    """Done once the server has said what it allows."""
    idle_since: float
    """On the event loop's clock: since when it has carried nothing."""

    @property
    def capacity(self) -> int:
        """How many requests it takes at a time."""

    @property
    def room(self) -> int:
        """How many requests it takes now; 0 for good once it is closed."""

    @property
    def closed(self) -> bool:
        """Whether it takes no request any more."""

    async def post(self, request: HttpRequest, timeout: float) -> Answer:
        """Send it and wait. Raises Cut, NoAnswer, BadAnswer. Needs room."""

    def abort(self) -> None:
        """Cut the connection: nothing that is buffered is sent."""

    def on_data(self, data: bytes) -> None:
        """The server has sent this."""

    def on_lost(self, reason: str) -> None:
        """The connection is gone."""


class Wire(asyncio.Protocol):
    """The bytes below a connection. It has its owner from the first byte on, because a server may speak first."""

    transport: asyncio.WriteTransport

    def __init__(self, speak: Callable[[Wire, str | None], HttpConnection]) -> None:
        """``speak`` makes the owner once the connection stands, by the protocol that ALPN has chosen, if any."""
        self._speak = speak
        self.owner: HttpConnection
        self.written = 0
        """Bytes given to the transport so far."""
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why the connection ended, once it has."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The TCP connection stands, and TLS on it."""
        self.transport = cast("asyncio.WriteTransport", transport)
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        self.owner = self._speak(self, None if tls is None else tls.selected_alpn_protocol())

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self.owner.on_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Pass it on."""
        reason = "the server closed the connection" if error is None else loss_of(error)
        self.lost.set_result(reason)
        self.owner.on_lost(reason)

    def write(self, data: bytes) -> None:
        """Send it; after an abort it is dropped."""
        if data and not self.transport.is_closing():
            self.written += len(data)
            self.transport.write(data)


def loss_of(error: Exception) -> str:
    """Why a connection failed or ended; of TLS what its library says, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or reason_of(error)).lower().replace('_', ' ')}"
    return reason_of(error)
