"""Where a request comes from: the host that it names, the page that sent it, and the client's address."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from relay.console.access.access_options import AccessOptions
from relay.settings.address import is_loopback

Networks = Sequence[IPv4Network | IPv6Network]


def names_this_console(headers: Headers, options: AccessOptions) -> bool:
    """Whether Host names this console.

    On loopback another name is that of an attacker's web site, which was pointed to this machine after it was loaded
    (DNS rebinding). Without Host the client is no browser.
    """
    host = headers.get("host", "").lower()
    name = _host_name(host)
    if not host or (name and (is_loopback(name) or name.endswith(".localhost"))):
        return True
    if options.url is not None:
        return host == urlsplit(options.url).netloc
    return options.public and bool(name)


def from_another_site(headers: Headers, options: AccessOptions) -> bool:
    """Whether a page of another origin sent this request. A request that says nothing comes from no browser."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None:
        return False
    # The scheme is left out: a proxy in front of the console may have taken off TLS.
    own = {headers.get("host", "").lower()}
    if options.url is not None:
        own.add(urlsplit(options.url).netloc)
    return _netloc(origin) not in own


def client_address(peer: str, headers: Headers, trusted: Networks) -> str:
    """The client's address: the peer's, or what trusted proxies say in X-Forwarded-For, read from the right."""
    address = peer
    hops = ",".join(headers.getlist("x-forwarded-for")).split(",") if trusted else []
    while _within(address, trusted) and hops:
        hop = hops.pop().strip()
        try:
            ip_address(hop)
        except ValueError:
            break  # what a proxy did not write as an address says nothing about the client
        address = hop
    return address


def _within(address: str, networks: Networks) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return any((mapped or parsed) in network for network in networks)


def _host_name(host: str) -> str:
    if "@" in host:  # a user's name belongs into no Host, and hides the host from other readers
        return ""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
