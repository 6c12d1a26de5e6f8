"""Connecting to one of a host's checked addresses, by HTTP/2 where server and options agree on it."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

from relay.brokers.http.addresses import usable_addresses
from relay.brokers.http.http1 import Http1Connection
from relay.brokers.http.http2 import Http2Connection
from relay.brokers.http.wire import HttpConnection, Origin, Wire, loss_of
from relay.core.errors import BrokerUnreachable, reason_of

_AFTER_HANDSHAKE: Final = (
    "right after the TLS handshake: it may refuse the client's certificate (HTTP_TLS_CERT), or ask for one"
)
_REFUSAL: Final = 0.2  # seconds in which a server refuses a client's certificate


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
                    reason = loss_of(error)
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
    wire = Wire(_spoken)
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


def _spoken(wire: Wire, protocol: str | None) -> HttpConnection:
    return Http2Connection(wire) if protocol == "h2" else Http1Connection(wire)
