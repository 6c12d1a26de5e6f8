"""The proxy that a destination's requests go through (HTTP_EGRESS_PROXY): a tunnel by CONNECT, for http and https.

What is checked is where the tunnel ends, as without a proxy: the relay resolves the receiver's name, and asks for a
tunnel to an address that it may send to. With HTTP_ALLOW_PRIVATE nothing is checked, and the proxy gets the name: it
alone decides where that leads. The proxy's own address is checked by the same rule.

A proxy that does not answer, or gives no tunnel, is a destination that cannot be reached; one that refuses the relay's
login or the receiver (407, 403) is one that refuses the relay. No event uses an attempt for either.
"""

from __future__ import annotations

import asyncio
import re
import socket
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from relay.brokers.http.addresses import literal_refusal
from relay.brokers.http.headers import lines_of
from relay.brokers.http.origin import authority, login_in
from relay.core.errors import BrokerRefused, BrokerUnreachable, ConfigError

_WHERE: Final = "HTTP_EGRESS_PROXY"
_SHAPE: Final = (
    "write http://host:port or http://user:password@host:port, and percent-encode special characters of the login"
)
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
_LARGEST_HEAD: Final = 16_384  # bytes of an answer to CONNECT
_REFUSED: Final = {403: "it does not let the relay through to this receiver", 407: "it refuses the relay's login"}


@dataclass(frozen=True, slots=True)
class EgressProxy:
    """Where it is, and the login."""

    host: str
    port: int
    authorization: str | None = field(repr=False)
    """The value of Proxy-Authorization; None without a login."""

    def __str__(self) -> str:
        return f"proxy {authority(self.host, self.port)}"

    def request(self, target: str) -> bytes:
        """What asks for a tunnel to ``host:port``."""
        login = [] if self.authorization is None else [("Proxy-Authorization", self.authorization)]
        return b"CONNECT %s HTTP/1.1\r\n%s\r\n" % (target.encode(), lines_of([("Host", target), *login]))


def read_proxy(url: str | None, *, allow_private: bool) -> EgressProxy | None:
    """The proxy of HTTP_EGRESS_PROXY. Raises ConfigError, which shows no part of a URL that is wrong."""
    if not url:
        return None
    try:
        parts = urlsplit(url.strip())
        port, host = parts.port, (parts.hostname or "").encode("idna").decode()
    except ValueError:
        raise ConfigError(f"{_WHERE} is not the URL of a proxy: {_SHAPE}") from None
    more = parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme != "http" or not re.fullmatch(r"[!-~]+", host) or not port or more:
        raise ConfigError(f"{_WHERE} is not the URL of a proxy: {_SHAPE}")
    if not allow_private and (refusal := literal_refusal(host)):
        raise ConfigError(f"{_WHERE}: {refusal}")
    return EgressProxy(host, port, login_in(parts))


async def open_tunnel(connected: socket.socket, proxy: EgressProxy, target: str) -> None:
    """Turn a connection to the proxy into one to ``target``, ``host:port``. Raises BrokerUnreachable, OSError."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connected, proxy.request(target))
    head = b""
    while (end := head.find(b"\r\n\r\n")) < 0:
        if len(head) > _LARGEST_HEAD:
            raise BrokerUnreachable(f"{proxy}: its answer to CONNECT has no end")
        if not (data := await loop.sock_recv(connected, _LARGEST_HEAD)):
            raise BrokerUnreachable(f"{proxy}: it closed the connection before it answered CONNECT")
        head += data
    status = _STATUS.match(head)
    if status is None:
        raise BrokerUnreachable(f"{proxy}: what answers is not an HTTP proxy")
    code = int(status[1])
    if code in _REFUSED:
        raise BrokerRefused(f"{proxy}: {_REFUSED[code]} (status {code})")
    if not 200 <= code < 300:
        raise BrokerUnreachable(f"{proxy}: no tunnel to {target} (status {code})")
    if end + 4 < len(head):
        raise BrokerUnreachable(f"{proxy}: it sends data before the receiver has had a request")
