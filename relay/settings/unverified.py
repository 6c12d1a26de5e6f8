"""Logins that go over a path which is not verified: every host on that path can answer as the server, and gets them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from relay.settings.address import is_loopback

_URL: Final = re.compile(
    r"\s*(?P<scheme>[a-z+]+)://(?:(?P<login>.*)@)?(?P<hosts>[^@/?#]*)(?:/[^?]*)?(?:\?(?P<query>.*))?", re.DOTALL
)


class _Path(NamedTuple):
    scheme: str
    login: str
    hosts: tuple[str, ...]
    query: Mapping[str, str]


def unverified_host(kind: str, url: str) -> str:
    """The first host of another machine that gets a password without having shown who it is; empty where none does."""
    match = _URL.fullmatch(url)
    if match is None or kind not in _VERIFIED:
        return ""
    query = dict(parse_qsl(match["query"] or ""))
    hosts = query.get("hostaddr") or query.get("host") or match["hosts"]
    path = _Path(match["scheme"], match["login"] or "", tuple(map(_host, hosts.split(","))), query)
    secret = ":" in path.login or "password" in query or (kind == "nats" and path.login)
    if not secret or _VERIFIED[kind](path):
        return ""
    return next((one for one in path.hosts if not (one.startswith("/") or is_loopback(one or "localhost"))), "")


def _host(address: str) -> str:
    """The host of ``host:port``, of ``nats://host:port`` in a list, or of ``[::1]:port``."""
    address = unquote(address.rpartition("://")[2].rpartition("@")[2].strip())
    return address.partition("]")[0].lstrip("[") if address.startswith("[") else address.partition(":")[0]


def _postgres(path: _Path) -> bool:
    return path.query.get("sslmode", "").startswith("verify-") or path.query.get("sslrootcert") == "system"


def _redis(path: _Path) -> bool:
    return path.scheme.startswith("rediss") and path.query.get("ssl_cert_reqs", "required") == "required"


def _nats(path: _Path) -> bool:
    return path.scheme == "tls" or any(name.startswith("tls_") for name in path.query)


def _rabbitmq(path: _Path) -> bool:
    return path.scheme == "amqps"


_VERIFIED: Final[Mapping[str, Callable[[_Path], bool]]] = {
    "postgres": _postgres,
    "redis": _redis,
    "nats": _nats,
    "rabbitmq": _rabbitmq,
}
_INSTEAD: Final = {
    "postgres": "sslmode=verify-full, with sslrootcert where its authority is not a public one",
    "redis": "rediss://",
    "nats": "tls://",
    "rabbitmq": "amqps://",
}


def unverified_login(variable: str, kind: str, url: str) -> str:
    """A sentence that says so of a variable; empty where its login is safe."""
    host = unverified_host(kind, url)
    if not host:
        return ""
    return (
        f"{variable}: the password goes to {host} over a path that is not verified: every host on the way can answer "
        f"in its place and get it. Write {_INSTEAD[kind]}"
    )
