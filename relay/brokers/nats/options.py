"""What the NATS publisher can be configured with, and how that becomes nats-py's arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

from relay.brokers.login import BrokerOptions
from relay.brokers.nats.identity import identity_arguments
from relay.brokers.tls import TLS_FILES, client_context
from relay.core.errors import ConfigError

_SERVER = re.compile(
    r"(?:(?P<scheme>\w+)://)?(?:(?P<login>[^@/]*)@)?(?P<address>(?:\[[0-9A-Fa-f:.%\w]+\]|[^@/?#:\[\]\s]+)(?::\d{1,5})?)/?"
)
_FILES = frozenset({"credentials", "nkey_seed"}) | TLS_FILES
_LIMIT = "max_control_line"
_SHAPE = (
    "write nats://user:password@host:4222,host2:4222 or tls://…, and percent-encode special characters of user, "
    "password and token (@ is %40, / is %2F, ? is %3F, # is %23, the comma is %2C)"
)
DEFAULT_CONTROL_LINE = 4096
"""Bytes; a server's default. A server does not tell its clients when it was set to another value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsOptions(BrokerOptions):
    """Times are seconds.

    ``url`` is ``nats://user:password@host:4222,host2:4222``; a lone ``token@`` is a token, ``tls://`` demands TLS.
    User, password and token are percent-decoded. The query may name files: ``credentials``, ``nkey_seed``,
    ``tls_ca``, ``tls_cert`` and ``tls_key``; they are read again for every connection. ``max_control_line`` is the
    servers' own setting of that name, where it is not 4096.
    """

    publish_timeout: float
    """From the offer of a message to its acknowledgement."""
    connection_timeout: float
    """For one connection, TLS and login included."""
    max_pending: int = 4000
    """Most unanswered messages; beyond that ``publish`` waits."""
    receipts: bool
    """Whether an acknowledgement carries stream and sequence."""
    allowed_types: Sequence[str]
    """Patterns of event types: subjects that steer the server are refused but for those of these that begin so."""


def connect_arguments(options: NatsOptions) -> dict[str, Any]:
    """Arguments for nats-py's ``connect``, with the current content of the files.

    Raises ConfigError when the URL or a file it names cannot be used.
    """
    address, _, _ = options.url.partition("?")
    servers = [_match(part) for part in address.split(",")]
    if servers[0]["login"] is None and any(server["login"] is not None for server in servers):
        raise ConfigError(f"PUBLISHER_URL: the login must stand before the first NATS server; {_SHAPE}")
    if len({server["login"] for server in servers} - {None}) > 1:  # or the rest of a password with "@" and ","
        raise ConfigError(f"PUBLISHER_URL: its NATS servers must have one login; {_SHAPE}")
    files = {name: value for name, value in _parameters(options).items() if name in _FILES}
    control_line(options)
    arguments: dict[str, Any] = {
        "servers": [f"nats://{server['address']}" for server in servers],
        "name": "relay",
        "connect_timeout": options.connection_timeout,
    }
    arguments |= _login(server["login"] for server in servers)
    arguments |= identity_arguments(files)
    if any(server["scheme"] == "tls" for server in servers) or any(name.startswith("tls_") for name in files):
        arguments["tls"] = client_context(files)
    return arguments


def server_names(options: NatsOptions) -> str:
    """The addresses, without a login. Raises ConfigError as ``connect_arguments`` does."""
    return ", ".join(f"nats://{_match(part)['address']}" for part in options.url.partition("?")[0].split(","))


def control_line(options: NatsOptions) -> int:
    """The most bytes that the server takes for subject, reply subject and sizes of one message. Raises ConfigError."""
    limit = _parameters(options).get(_LIMIT, str(DEFAULT_CONTROL_LINE))
    if not re.fullmatch(r"[1-9]\d{0,8}", limit):
        raise ConfigError(f"PUBLISHER_URL: {_LIMIT} is not a number of bytes, as the NATS server is configured with")
    return int(limit)


def _parameters(options: NatsOptions) -> dict[str, str]:
    """The query of the URL. No message shows a part of it where it may be the rest of a password."""
    query = options.url.partition("?")[2]
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(parameters.keys() - _FILES - {_LIMIT}):
        shown = "a parameter" if "@" in query else repr(unknown[0])
        known = ", ".join(sorted(_FILES | {_LIMIT}))
        raise ConfigError(f"PUBLISHER_URL: {shown} is not known; NATS takes {known}; {_SHAPE}")
    return parameters


def _match(part: str) -> re.Match[str]:
    match = _SERVER.fullmatch(part.strip())
    if match is None:
        raise ConfigError(f"PUBLISHER_URL names no NATS server; {_SHAPE}")
    if match["scheme"] not in (None, "nats", "tls"):
        raise ConfigError(f"PUBLISHER_URL: its scheme is not a NATS scheme; {_SHAPE}")
    return match


def _login(logins: Iterable[str | None]) -> dict[str, str]:
    """The login of the servers that name one."""
    login = next((login for login in logins if login), None)
    if login is None:
        return {}
    user, separator, password = login.partition(":")
    if not separator or not user:
        return {"token": unquote(password or user)}
    return {"user": unquote(user), "password": unquote(password)}
