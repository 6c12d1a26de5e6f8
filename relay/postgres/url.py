"""From STORAGE_URL to what libpq is given. No text that leaves this module holds the password.

libpq's own URL parameters pass through. Those of the Go driver pgx, which URLs written for other relays may carry,
are dropped with a warning: they speak of a pool that is not here. ``postgres://`` and ``postgresql://`` are the same.
"""

from __future__ import annotations

import logging
import re
from typing import Final
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from relay.core.errors import ConfigError

_log = logging.getLogger(__name__)

_SHAPE: Final = (
    "write postgres://user:password@host:5432/database?sslmode=require and percent-encode what is special in a "
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
_LONGEST_APPLICATION_NAME = 63  # bytes; the server cuts longer ones
SECONDS_PER_HOST = 4  # of several, the first of which may be gone: three fit into the deadline of a statement
_SECONDS_OF_SILENCE = 15  # before a dead peer is noticed by TCP itself

ConnectionParameters = dict[str, str | int]


def connection_parameters(url: str, relay_id: str) -> ConnectionParameters:
    """What libpq is given for ``url``; raises ConfigError, without the password, for a URL that cannot be meant."""
    given = _parse(url)
    several = hosts(given) > 1
    parameters: ConnectionParameters = {
        "connect_timeout": SECONDS_PER_HOST if several else 10,
        "keepalives": 1,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": _SECONDS_OF_SILENCE * 1000,
        "application_name": f"openoutbox-relay/{relay_id}".encode()[:_LONGEST_APPLICATION_NAME].decode(errors="ignore"),
    }
    if several:
        parameters["target_session_attrs"] = "read-write"
    return {**parameters, **given, "client_encoding": "UTF8"}


def hosts(parameters: ConnectionParameters) -> int:
    """How many servers are named."""
    return 1 + max(str(parameters.get(name, "")).count(",") for name in ("host", "hostaddr"))


def _parse(url: str) -> ConnectionParameters:
    if not url.startswith(("postgres://", "postgresql://")):
        raise ConfigError(f"STORAGE_URL is not a PostgreSQL URL: {_SHAPE}")
    address, query = _split(url)
    pieces = {piece: unquote(piece.partition("=")[0]) for piece in query.split("&") if piece}
    dropped = sorted(set(pieces.values()) & _PGX_ONLY)
    if dropped:
        _log.warning("STORAGE_URL: parameters of another driver are ignored: %s", ", ".join(dropped))
    unknown = sorted(set(pieces.values()) - _known_to_libpq() - _PGX_ONLY)
    if unknown and "@" not in query:  # with an @ it may be the rest of a password
        raise ConfigError(f"STORAGE_URL: libpq knows no parameter {', '.join(unknown)}")
    kept = "&".join(piece for piece, name in pieces.items() if name not in _PGX_ONLY)
    url = f"{address}?{kept}" if kept else address
    try:
        return {name: value for name, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.Error:
        raise ConfigError(f"STORAGE_URL cannot be read: {_SHAPE}") from None


def _split(url: str) -> tuple[str, str]:
    """Address and query, as libpq parts them: a password may hold a bare ``?`` or ``#``, up to the first ``@``."""
    login = _LOGIN.match(url)
    address, _, query = url[login.end() if login else 0 :].partition("?")
    return (login.group() if login else "") + address, query


def _known_to_libpq() -> frozenset[str]:
    return frozenset(option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()) | {"ssl"}
