"""One TCP or TLS connection to a checked address, and the protocol that it speaks by ALPN."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final, NamedTuple, Protocol, cast

from relay.brokers.http.addresses import usable_addresses
from relay.brokers.http.errors import Answer
from relay.core.errors import BrokerUnreachable, reason_of
from relay.core.headers import Header

_AFTER_HANDSHAKE: Final = (
    "right after the TLS handshake: it may refuse the client's certificate (HTTP_TLS_CERT), or ask for one"
)
_REFUSAL: Final = 0.2  # seconds in which a server refuses a client's certificate


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

    def __init__(self) -> None:
        self.owner: HttpConnection
        self.written = 0
        """Bytes given to the transport so far."""
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why the connection ended, once it has."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The TCP connection stands, and TLS on it."""
        self.transport = cast("asyncio.WriteTransport", transport)
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        # Imported here because both import this module for their types.
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            from relay.brokers.http.http2 import Http2Connection  # noqa: PLC0415

            self.owner = Http2Connection(self)
        else:
            from relay.brokers.http.http1 import Http1Connection  # noqa: PLC0415

            self.owner = Http1Connection(self)

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self.owner.on_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Pass it on."""
        reason = "the server closed the connection" if error is None else _loss(error)
        self.lost.set_result(reason)
        self.owner.on_lost(reason)

    def write(self, data: bytes) -> None:
        """Send it; after an abort it is dropped."""
        if data and not self.transport.is_closing():
            self.written += len(data)
            self.transport.write(data)


async def connect(origin: Origin, context: ssl.SSLContext | None, timeout: float, *, allow_private: bool) -> Wire:
    """Connect to one of the origin's addresses, in turn. Raises BrokerUnreachable with origin and reason.

    ``context`` is not None for https. Cancelled, it leaves no connection behind.
    """
    try:
        async with asyncio.timeout(timeout):
            reason = "the name has no address"
            for family, address in await usable_addresses(origin.host, origin.port, allow_private=allow_private):
                try:
                    return await _connect_to(origin, family, address, context)
                except ssl.SSLError as error:  # the server answers: another address of it would say the same
                    reason = _loss(error)
                    break
                except OSError as error:
                    reason = reason_of(error)
    except TimeoutError:
        reason = f"no connection within {timeout:g} s"
    except BrokerUnreachable as error:
        reason = str(error)
    raise BrokerUnreachable(f"{origin}: {reason}")


async def check(origin: Origin, context: ssl.SSLContext | None, timeout: float, *, allow_private: bool) -> None:
    """Connect and send nothing. Raises BrokerUnreachable.

    By TLS 1.3 a server refuses a client's certificate after the client has ended its handshake, so this waits a moment.
    """
    wire = await connect(origin, context, timeout, allow_private=allow_private)
    try:
        if context is not None:
            await asyncio.wait({wire.lost}, timeout=_REFUSAL)
        if wire.lost.done():  # uvloop does not pass on the server's alert
            raise BrokerUnreachable(f"{origin}: {wire.lost.result()}, {_AFTER_HANDSHAKE}")
    finally:
        wire.transport.abort()


async def _connect_to(origin: Origin, family: int, address: str, context: ssl.SSLContext | None) -> Wire:
    name = None if context is None else origin.host
    wire = Wire()
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: wire, address, origin.port, ssl=context, server_hostname=name, family=family
        )
        settled: set[asyncio.Future[Any]] = {wire.owner.ready, wire.lost}
        await asyncio.wait(settled, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:  # it may have succeeded just before
        if hasattr(wire, "transport"):
            wire.transport.abort()
        raise
    if not wire.owner.ready.done():
        raise ConnectionResetError(f"{wire.lost.result()}, {_AFTER_HANDSHAKE}")
    return wire


def _loss(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or reason_of(error)).lower().replace('_', ' ')}"
    return reason_of(error)
