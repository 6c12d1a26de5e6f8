"""What the NATS publisher can be configured with, and how that becomes nats-py's arguments."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

from relay.brokers.nats.identity import identity_arguments
from relay.core.errors import ConfigError

_SERVER = re.compile(r"(?:(?P<scheme>\w+)://)?(?:(?P<login>[^@/]*)@)?(?P<address>[^@/?]+)/?")
_QUERY = frozenset({"credentials", "nkey_seed", "tls_ca", "tls_cert", "tls_key"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsOptions:
    """Times are seconds. What a variable sets has no default here: ``relay.settings`` holds it."""

    url: str = field(repr=False)
    """``nats://user:password@host:4222,host2:4222``; a lone ``token@`` is a token, ``tls://`` demands TLS.

    User, password and token are percent-decoded. The query may name files: ``credentials``, ``nkey_seed``,
    ``tls_ca``, ``tls_cert`` and ``tls_key``; they are read again for every connection.
    """
    publish_timeout: float
    """From the offer of a message to its acknowledgement."""
    connection_timeout: float
    """For one connection, TLS and login included."""
    max_pending: int = 4000
    """Most unanswered messages; beyond that ``publish`` waits."""
    receipts: bool
    """Whether an acknowledgement carries stream and sequence."""


def connect_arguments(options: NatsOptions) -> dict[str, Any]:
    """Arguments for nats-py's ``connect``, with the current content of the files.

    Raises ConfigError when the URL or a file it names cannot be used.
    """
    address, _, query = options.url.partition("?")
    servers = [_match(part) for part in address.split(",")]
    files = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(files.keys() - _QUERY):
        raise ConfigError(f"PUBLISHER_URL: {unknown[0]!r} is not known; NATS takes {', '.join(sorted(_QUERY))}")
    arguments: dict[str, Any] = {
        "servers": [f"nats://{server['address']}" for server in servers],
        "name": "relay",
        "connect_timeout": options.connection_timeout,
    }
    arguments |= _login(server["login"] for server in servers)
    arguments |= identity_arguments(files)
    if any(server["scheme"] == "tls" for server in servers) or any(name.startswith("tls_") for name in files):
        arguments["tls"] = _tls(files)
    return arguments


def _match(part: str) -> re.Match[str]:
    match = _SERVER.fullmatch(part.strip())
    if match is None:
        raise ConfigError("PUBLISHER_URL names no NATS server; write nats://host:4222")
    if match["scheme"] not in (None, "nats", "tls"):
        raise ConfigError(f"PUBLISHER_URL: {match['scheme']!r} is not a NATS scheme; write nats://host:4222 or tls://…")
    return match


def _login(logins: Iterable[str | None]) -> dict[str, str]:
    """The first login in the list of servers."""
    login = next((login for login in logins if login), None)
    if login is None:
        return {}
    user, separator, password = login.partition(":")
    if not separator:
        return {"token": unquote(user)}
    return {"user": unquote(user), "password": unquote(password)}


def _tls(files: dict[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=files.get("tls_ca"))
        if "tls_cert" in files:
            context.load_cert_chain(files["tls_cert"], files.get("tls_key"))
    except OSError as error:
        raise ConfigError(f"PUBLISHER_URL: a file of its tls_* parameters cannot be used: {error}") from None
    return context
