"""Connecting to one of a host's checked addresses."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Final

from relay.brokers.http.addresses import usable_addresses
from relay.brokers.http.origin import Origin
from relay.brokers.http.session import HttpSession, loss_of
from relay.brokers.tls import handshake_refused
from relay.core.durations import in_words
from relay.core.errors import BrokerRefused, BrokerUnreachable, reason_of
from relay.core.racing import connect_first

_AFTER_HANDSHAKE: Final = (
    "right after the TLS handshake: it may refuse the client's certificate (HTTP_TLS_CERT), or ask for one"
)
_REFUSAL: Final = 0.2  # seconds in which a server refuses a client's certificate


async def connect(
    origin: Origin, context: ssl.SSLContext | None, timeout: float, *, allow_private: bool
) -> HttpSession:
    """Connect to the first of the origin's addresses that answers. Raises BrokerUnreachable with origin and reason.

    ``context`` is not None for https. Cancelled, it leaves no connection behind.
    """
    kind = BrokerUnreachable
    try:
        async with asyncio.timeout(timeout):
            addresses = await usable_addresses(origin.host, origin.port, allow_private=allow_private)
            return await _session(origin, await connect_first(addresses), context)
    except TimeoutError:
        reason = f"no connection within {in_words(timeout)}"
    except BrokerUnreachable as error:
        reason = str(error)
    except ssl.SSLError as error:
        reason, kind = loss_of(error), BrokerRefused if handshake_refused(error) else BrokerUnreachable
    except OSError as error:
        reason = reason_of(error)
    raise kind(f"{origin}: {reason}")


async def check(origin: Origin, context: ssl.SSLContext | None, timeout: float, *, allow_private: bool) -> None:
    """Connect and send nothing. Raises BrokerUnreachable.

    By TLS 1.3 a server refuses a client's certificate after the client has ended its handshake, so this waits a moment.
    """
    session = await connect(origin, context, timeout, allow_private=allow_private)
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
