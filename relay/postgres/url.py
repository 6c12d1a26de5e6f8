"""Read a PostgreSQL URL into libpq's parameters. No message of this module contains the password.

libpq's own URL parameters pass through and win over the defaults here. Those of the Go driver pgx, which URLs written
for other relays may carry, are dropped with a warning: they configure a pool that is not here. ``postgres://`` and
``postgresql://`` are the same.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from relay.core import origins
from relay.core.errors import ConfigError
from relay.postgres.sql import LONGEST_IDENTIFIER

_log = logging.getLogger(__name__)

_SHAPE: Final = (
    "write postgres://user:password@host:5432/database?sslmode=verify-full and percent-encode what is special in a "
    "password (@ is %40, / is %2F, % is %25)"
)
_PGX_ONLY: Final = frozenset(
    {
        "pool_max_conns",
        "pool_min_conns",
        "pool_min_idle_conns",
        "pool_max_conn_lifetime",
        "pool_max_conn_lifetime_jitter",
        "pool_max_conn_idle_time",
        "pool_health_check_period",
        "default_query_exec_mode",
        "statement_cache_capacity",
        "statement_cache_mode",
        "description_cache_capacity",
        "prefer_simple_protocol",
        "binary_parameters",
    }
)
_LOGIN: Final = re.compile(r"[a-z]+://[^/@]*@")
_SECONDS_TO_CONNECT: Final = 10
SECONDS_PER_HOST: Final = 4
"""To connect to one of several hosts, the first of which may be gone: three fit into the deadline of a statement."""
_SECONDS_OF_SILENCE: Final = 15  # until TCP gives a peer up that acknowledges nothing

ConnectionParameters: TypeAlias = dict[str, str | int]


def connection_parameters(
    url: str,
    application_name: str,
    *,
    source: str = "STORAGE_URL",
    streams: bool = False,
    connect_timeout: int = _SECONDS_TO_CONNECT,
) -> ConnectionParameters:
    """What libpq is given for ``url``.

    ``application_name`` is shown in ``pg_stat_activity``; it is cut to the 63 bytes that the server keeps.
    ``streams`` is for connections that send COPY data: there TCP must not give up a server that takes none for 15 s,
    for example while it waits for a lock. ``connect_timeout`` is in seconds; the URL's own wins.

    Raises ConfigError, which names ``source`` (the variable or option that the URL is from), for an invalid URL.
    """
    read = partial(
        _parameters,
        application_name=application_name,
        source=source,
        streams=streams,
        connect_timeout=connect_timeout,
    )
    origin = origins.of(url)
    return read(url) if origin is None else LiveParameters(url, read, origin)


class LiveParameters(dict[str, str | int]):
    """Parameters whose secret may change: each new connection asks for the ``present`` ones."""

    def __init__(self, url: str, read: Callable[[str], ConnectionParameters], origin: origins.SecretOrigin) -> None:
        super().__init__(read(url))
        self._url = url
        self._read = read
        self._origin = origin

    def present(self) -> ConnectionParameters:
        """As they are now; may block. Raises StorageUnavailable where a command gives no password."""
        url = self._origin.present(self._url)
        try:
            values = self._read(url)
        except ConfigError as error:
            self._origin.say(str(error))
            values = self._read(self._url)
        else:
            self._url = url
        if self._origin.command is not None and "password" not in values:
            values["password"] = self._origin.command.password()
        return values

    async def present_off_loop(self) -> ConnectionParameters:
        """Likewise, for asyncio."""
        return await self._origin.off_loop(self.present)

    def refused(self) -> None:
        """The server has refused the login."""
        if self._origin.command is not None:
            self._origin.command.refused()


def _parameters(
    url: str, *, application_name: str, source: str, streams: bool, connect_timeout: int
) -> ConnectionParameters:
    requested = _parse(url, source)
    several = hosts(requested) > 1
    parameters: ConnectionParameters = {
        "connect_timeout": min(SECONDS_PER_HOST, connect_timeout) if several else connect_timeout,
        "keepalives": 1,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "application_name": application_name.encode()[:LONGEST_IDENTIFIER].decode(errors="ignore"),
    }
    if not streams:
        parameters["tcp_user_timeout"] = _SECONDS_OF_SILENCE * 1000
    if several:
        parameters["target_session_attrs"] = "read-write"
    return {**parameters, **requested, "client_encoding": "UTF8"}


def check_url(url: str, source: str) -> None:
    """Raise ConfigError, which names ``source``, for an invalid URL."""
    _parse(url, source)


def database_name(url: str) -> str:
    """The database that ``url`` names; empty where it names none. Raises ConfigError, as ``connection_parameters``."""
    return str(_parse(url, "STORAGE_URL").get("dbname", ""))


def hosts(parameters: ConnectionParameters) -> int:
    """How many servers are named."""
    return 1 + max(str(parameters.get(name, "")).count(",") for name in ("host", "hostaddr"))


def _parse(url: str, source: str) -> ConnectionParameters:
    if not url.startswith(("postgres://", "postgresql://")):
        raise ConfigError(f"{source}: not a PostgreSQL URL; {_SHAPE}")
    address, query = _split(url)
    pieces = {piece: unquote(piece.partition("=")[0]) for piece in query.split("&") if piece}
    dropped = sorted(set(pieces.values()) & _PGX_ONLY)
    if dropped:
        _log.warning("%s: parameters of the Go driver pgx are ignored: %s", source, ", ".join(dropped))
    unknown = sorted(set(pieces.values()) - _known_to_libpq() - _PGX_ONLY)
    if unknown and "@" not in query:  # with an @ it may be the rest of a password
        raise ConfigError(f"{source}: libpq has no parameter {', '.join(unknown)}; remove it from the URL")
    query = "&".join(piece for piece, name in pieces.items() if name not in _PGX_ONLY)
    url = f"{address}?{query}" if query else address
    try:
        parameters = {name: value for name, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.Error:
        raise ConfigError(f"{source}: invalid PostgreSQL URL; {_SHAPE}") from None
    # With a bare / or @ in the password, libpq reads a part of it as the host, which later errors would show.
    if (login_and_host := address.partition("://")[2]).count("@") > 1 or "@" in login_and_host.partition("/")[2]:
        raise ConfigError(f"{source}: invalid PostgreSQL URL; {_SHAPE}")
    return parameters


def _split(url: str) -> tuple[str, str]:
    """Address and query, as libpq parts them: a password may hold a bare ``?`` or ``#``, up to the first ``@``."""
    login = _LOGIN.match(url)
    address, _, query = url[login.end() if login else 0 :].partition("?")
    return (login.group() if login else "") + address, query


def _known_to_libpq() -> frozenset[str]:
    return frozenset(option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()) | {"ssl"}
