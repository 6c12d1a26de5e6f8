"""Logins that go over a path which is not verified: every host on that path can answer as the server, and gets them."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, unquote

from relay.brokers import kinds
from relay.brokers.kinds import LoginPath
from relay.settings.address import is_loopback

_URL: Final = re.compile(
    r"\s*(?P<scheme>[a-z+]+)://(?:(?P<login>.*)@)?(?P<hosts>[^@/?#]*)(?:/[^?]*)?(?:\?(?P<query>.*))?", re.DOTALL
)
_POSTGRES: Final = LoginPath(
    lambda _scheme, query: query.get("sslmode", "").startswith("verify-") or query.get("sslrootcert") == "system",
    "sslmode=verify-full, with sslrootcert where its authority is not a public one",
)


_LOG: Final = LoginPath(
    lambda scheme, query: scheme == "clickhouses" or (scheme != "clickhouse" and _POSTGRES.verified(scheme, query)),
    "sslmode=verify-full, or clickhouses:// for ClickHouse",
)
_PASSWORDS: Final = ("password", "passfile", "sasl.password")
"""Parameters of a URL that hold one, or the path of its file."""


def unverified_login(variable: str, kind: str, url: str, *, commanded: bool = False) -> str:
    """A sentence that says so; empty where the login is safe. ``kind`` is postgres, log or PUBLISHER_TYPE.

    ``commanded``: a command prints the password.
    """
    path, host = _path(kind), unverified_host(kind, url, commanded=commanded)
    if path is None or not host:
        return ""
    return (
        f"{variable}: the password goes to {host} over a path that is not verified: every host on the way can answer "
        f"in its place and get it. Write {path.instead}"
    )


def _path(kind: str) -> LoginPath | None:
    if kind in ("postgres", "log"):
        return _POSTGRES if kind == "postgres" else _LOG
    row = kinds.find(kind)
    return None if row is None else row.login


def unverified_host(kind: str, url: str, *, commanded: bool = False) -> str:
    """The first host of another machine that gets a password without having shown who it is; empty where none does."""
    match, path = _URL.fullmatch(url), _path(kind)
    if match is None or path is None:
        return ""
    login, query = match["login"] or "", dict(parse_qsl(match["query"] or ""))
    secret = commanded or ":" in login or not query.keys().isdisjoint(_PASSWORDS) or (path.token and login)
    if not secret or path.verified(match["scheme"], query):
        return ""
    hosts = map(_host, (query.get("hostaddr") or query.get("host") or match["hosts"]).split(","))
    return next((one for one in hosts if not (one.startswith("/") or is_loopback(one or "localhost"))), "")


def _host(address: str) -> str:
    """The host of ``host:port``, of ``nats://host:port`` in a list, or of ``[::1]:port``."""
    address = unquote(address.rpartition("://")[2].rpartition("@")[2].strip())
    return address.partition("]")[0].lstrip("[") if address.startswith("[") else address.partition(":")[0]
