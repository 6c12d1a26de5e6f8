"""Connecting to one of a host's checked addresses."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Final, NamedTuple

from relay.brokers.http.addresses import usable_addresses
from relay.brokers.http.origin import Origin, authority
from relay.brokers.http.proxy import EgressProxy, open_tunnel
from relay.brokers.http.session import HttpSession, loss_of
from relay.brokers.tls import handshake_refused
from relay.core.durations import in_words
from relay.core.errors import BrokerRefused, BrokerUnreachable, reason_of
from relay.core.racing import connect_first

_AFTER_HANDSHAKE: Final = (
    "right after the TLS handshake: it may refuse the client's certificate (HTTP_TLS_CERT), or ask for one"
)
_MOST_TARGETS: Final = 3  # addresses of a receiver that a proxy is asked for
_REFUSAL: Final = 0.2  # seconds in which a server refuses a client's certificate


class ConnectingWay(NamedTuple):
    """How an origin is connected to."""

    timeout: float
    """Seconds for a connection, with names and handshakes."""
    allow_private: bool
    proxy: EgressProxy | None


async def connect(origin: Origin, context: ssl.SSLContext | None, way: ConnectingWay) -> HttpSession:
    """Connect to the first of the origin's addresses that answers. Raises BrokerUnreachable with origin and reason.

    ``context`` is not None for https. Cancelled, it leaves no connection behind.
    """
    kind, timeout = BrokerUnreachable, way.timeout
    try:
        async with asyncio.timeout(timeout):
            connected = await (_direct(origin, way) if way.proxy is None else _through(way.proxy, origin, way))
            return await _session(origin, connected, context)
    except TimeoutError:
        reason = f"no connection within {in_words(timeout)}"
    except BrokerUnreachable as error:
        reason, kind = str(error), type(error)
    except ssl.SSLError as error:
        reason, kind = loss_of(error), BrokerRefused if handshake_refused(error) else BrokerUnreachable
    except OSError as error:
        reason = reason_of(error)
    raise kind(f"{origin}: {reason}")


async def _direct(origin: Origin, way: ConnectingWay) -> socket.socket:
    return await connect_first(await usable_addresses(origin.host, origin.port, allow_private=way.allow_private))


async def _through(proxy: EgressProxy, origin: Origin, way: ConnectingWay) -> socket.socket:
    """A tunnel to the first of the origin's addresses that the proxy reaches."""
    targets = [origin.host]
    if not way.allow_private:
        checked = await usable_addresses(origin.host, origin.port, allow_private=False)
        targets = [str(address[0]).partition("%")[0] for _, address in checked[:_MOST_TARGETS]]
    try:
        addresses = await usable_addresses(proxy.host, proxy.port, allow_private=way.allow_private)
    except BrokerUnreachable as error:
        raise BrokerUnreachable(f"{proxy}: {error}") from None
    failure: Exception | None = None
    end = asyncio.get_running_loop().time() + way.timeout
    for left, host in zip(range(len(targets), 0, -1), targets, strict=True):
        try:
            connected = await connect_first(addresses)
        except OSError as error:
            raise BrokerUnreachable(f"{proxy}: {reason_of(error)}") from None
        try:
            async with asyncio.timeout((end - asyncio.get_running_loop().time()) / left):  # one may lead nowhere
                await open_tunnel(connected, proxy, authority(host, origin.port))
        except BaseException as error:
            connected.close()
            if not isinstance(error, BrokerUnreachable | OSError) or left == 1:
                raise
            failure = error
        else:
            return connected
    raise failure or BrokerUnreachable("the name resolves to no address")


async def check(origin: Origin, context: ssl.SSLContext | None, way: ConnectingWay) -> None:
    """Connect and send nothing. Raises BrokerUnreachable.

    By TLS 1.3 a server refuses a client's certificate after the client has ended its handshake, so this waits a moment.
    """
    session = await connect(origin, context, way)
    try:
        if context is not None:
            await asyncio.wait({session.lost}, timeout=_REFUSAL)
        if session.lost.done():  # uvloop does not pass on the server's alert
            raise BrokerUnreachable(f"{origin}: {session.lost.result()}, {_AFTER_HANDSHAKE}")
    finally:
        session.transport.abort()


async def _session(origin: Origin, connected: socket.socket, context: ssl.SSLContext | None) -> HttpSession:
    name = None if context is None else origin.host
    session = HttpSession()
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: session, sock=connected, ssl=context, server_hostname=name
        )
    except BaseException:  # it may have succeeded just before it was cancelled
        if hasattr(session, "transport"):
            session.transport.abort()
        connected.close()
        raise
    return session
