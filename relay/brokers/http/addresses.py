"""Which addresses a webhook may be sent to: public ones alone, unless HTTP_ALLOW_PRIVATE is on.

An endpoint's URL may come from a customer. Without this check it could name the cloud's metadata service, the database
beside the relay or the relay's own port (server-side request forgery). The check is of the address that the connection
is made to, after the name was resolved: a name that resolves to something else a moment later gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

from relay.core.errors import BrokerUnreachable, reason_of
from relay.core.racing import Address

_NAT64: Final = IPv6Network("64:ff9b::/96")
"""IPv4 addresses as a translator writes them."""
_NOT_GLOBAL: Final = (
    IPv4Network("168.63.129.16"),  # Azure's own services, among them its metadata
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.88.99.0/24"),
    IPv6Network("3fff::/20"),
)
"""Networks that not every version of Python knows as special."""
_ADVICE: Final = "no request is sent there unless HTTP_ALLOW_PRIVATE=true"
_KINDS: Final = ("unspecified", "loopback", "link_local", "multicast", "reserved", "site_local", "private")
"""Properties of an address, each of which rules it out; the first that holds names it."""


@lru_cache(maxsize=4096)
def special_kind(address: str) -> str | None:
    """What makes an address other than public: ``loopback``, ``private``, …; None for a public one."""
    for ip in _readings(ip_address(address.partition("%")[0])):
        for kind in _KINDS:
            if getattr(ip, f"is_{kind}", False):
                return kind.replace("_", "-")
        if not ip.is_global or any(ip in network for network in _NOT_GLOBAL):
            return "special"
    return None


def _readings(ip: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """The address, or the IPv4 address inside it: behind ``::ffff:127.0.0.1`` is this machine."""
    if isinstance(ip, IPv4Address):
        yield ip
    elif ip in _NAT64:
        yield IPv4Address(int(ip) & 0xFFFFFFFF)
    elif ip.ipv4_mapped is not None:
        yield ip.ipv4_mapped
    else:
        yield ip
        if ip.sixtofour is not None:
            yield ip.sixtofour


def literal_refusal(host: str) -> str | None:
    """Why a host that is written as an address is refused; None for a public one, and for a name."""
    try:
        kind = special_kind(host)
    except ValueError:
        return None
    return kind and f"{host} is a {kind} address; {_ADVICE}"


async def usable_addresses(host: str, port: int, *, allow_private: bool) -> list[Address]:
    """Resolve a host; returns the addresses that a request may go to.

    Raises BrokerUnreachable for a name that does not resolve, and where every address is refused.
    """
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise BrokerUnreachable(f"the name cannot be resolved: {reason_of(error)}") from None
    addresses = list(dict.fromkeys((int(family), address) for family, _, _, _, address in infos))
    if allow_private:
        return addresses
    public = [one for one in addresses if special_kind(str(one[1][0])) is None]
    if not public:
        refused = ", ".join(f"{address[0]} ({special_kind(str(address[0]))})" for _, address in addresses)
        raise BrokerUnreachable(f"the name resolves to {refused}; {_ADVICE}")
    return public
