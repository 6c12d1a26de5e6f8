"""The servers that PUBLISHER_URL names: one, a Sentinel's primary, or a cluster's nodes; and connections to them.

``redis://host:6379/0``, ``rediss://…``, ``unix:///path``      one server; if it is a node of a cluster, any node
``redis+cluster://host:6379,host2:6379``                       nodes of a cluster, of which one must answer
``redis+sentinel://host:26379,host2:26379/mymaster/0``         the primary that these Sentinels name

``rediss+cluster`` and ``rediss+sentinel`` use TLS for every connection. User and password are the Redis servers'; those
of the Sentinels stand in the query, as ``sentinel_username`` and ``sentinel_password``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError

from relay.brokers.files import check_files
from relay.brokers.login import present
from relay.brokers.redis.bounded import BoundedParser
from relay.brokers.redis.errors import classify
from relay.brokers.redis.options import RedisOptions
from relay.brokers.server_address import ServerAddress, read_addresses
from relay.core.errors import ConfigError
from relay.core.origins import login_of
from relay.core.outcome import Unreachable

_SHAPE: Final = (
    "write redis://user:password@host:6379/0, rediss://…, unix:///path, redis+cluster://host:6379,host2:6379 or "
    "redis+sentinel://host:26379,host2:26379/mymaster, and percent-encode special characters of user and password "
    "(@ is %40, / is %2F, ? is %3F, # is %23)"
)
_URL: Final = re.compile(
    r"(?P<scheme>rediss?)\+(?P<kind>sentinel|cluster)://(?P<login>.*@)?(?P<hosts>[^@/?#]+)"
    r"(?:/(?P<path>[^?#]*))?(?:\?(?P<query>.*))?",
    re.IGNORECASE,
)
_FILES: Final = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile")
_LOGIN_END: Final = re.compile(r"[/?#]")


class RedisServers:
    """Makes connections; ``address`` None means the server that a new client starts with."""

    def __init__(self, options: RedisOptions) -> None:
        """Raises ConfigError, without any part of the URL, for an invalid one."""
        self._options = options
        self._timeout = options.connection_timeout
        match = _URL.fullmatch(options.url.strip())
        query = dict(parse_qsl(match["query"] or "", keep_blank_values=True)) if match else {}
        self._sentinel_login = {name: query.pop(f"sentinel_{name}", None) for name in ("username", "password")}
        self._starts: list[ServerAddress] = []
        self.service = ""
        """What the Sentinels call the servers; empty without Sentinels."""
        url = options.url
        if match is not None:
            port = 26379 if match["kind"].lower() == "sentinel" else 6379
            self._starts += read_addresses(match["hosts"], port, f"PUBLISHER_URL names no Redis server; {_SHAPE}")
            path = match["path"] or ""
            if match["kind"].lower() == "sentinel":
                self.service, _, path = path.partition("/")
                if not self.service:
                    raise ConfigError("PUBLISHER_URL names no service; write redis+sentinel://host:26379/mymaster")
            url = f"{match['scheme']}://{match['login'] or ''}host/{path}?{urlencode(query)}"
        self._pool = _connection_pool(url, options.connection_timeout)
        check_files(self._pool.connection_kwargs, _FILES)

    def __str__(self) -> str:
        """The addresses, without a login."""
        known = self._pool.connection_kwargs
        only = known.get("path") or f"{known.get('host', 'localhost')}:{known.get('port', 6379)}"
        return ", ".join(map(str, self._starts)) or str(only)

    @property
    def sentinels(self) -> Sequence[ServerAddress]:
        """Empty without Sentinels."""
        return tuple(self._starts) if self.service else ()

    def prefer(self, start: ServerAddress) -> None:
        """Begin the next connection with this one of the named addresses."""
        self._starts.sort(key=lambda each: each != start)

    def avoid(self, start: ServerAddress) -> None:
        """Begin the next connection with another one of the named addresses."""
        self._starts.sort(key=lambda each: each == start)

    async def connect(self, address: ServerAddress | None) -> AbstractConnection:
        """Return a connection that is logged in. Raises RedisError, OSError, BrokerUnreachable."""
        if address is not None:
            return await self._open(address._asdict())
        if not self._starts:
            return await self._open({})
        failure: Exception = RedisConnectionError("no server is named")
        for start in tuple(self._starts):
            try:
                async with asyncio.timeout(self._timeout / len(self._starts)):
                    connection = await (self._primary(start) if self.service else self._open(start._asdict()))
            except (RedisError, OSError) as error:  # a TimeoutError is an OSError
                failure = RedisConnectionError(f"{start}: {str(error) or 'no answer in time'}")
            else:
                self.prefer(start)  # the server that answered
                return connection
        raise failure

    async def open_sentinel(self, sentinel: ServerAddress) -> AbstractConnection:
        """Return a connection to a Sentinel, logged in, on which messages are replies. Raises RedisError or OSError."""
        return await self._open({**sentinel._asdict(), **self._sentinel_login, "db": 0, "protocol": 2})

    async def _primary(self, sentinel: ServerAddress) -> AbstractConnection:
        """Ask a Sentinel for its service's primary; the answer of one that was cut off from the others may be old."""
        connection = await self.open_sentinel(sentinel)
        try:
            await connection.send_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service)
            reply: Any = await connection.read_response()
        finally:
            await disconnect(connection)
        if not reply:
            raise RedisConnectionError(f"this Sentinel knows no service {self.service!r}")
        try:
            primary = ServerAddress(text(reply[0]), int(reply[1]))
        except (LookupError, TypeError, ValueError):
            raise RedisConnectionError(f"this Sentinel names no address of {self.service!r}") from None
        connection = await self._open(primary._asdict())
        try:
            reason = await read_only(connection)
        except BaseException:  # cancellation too
            await disconnect(connection)
            raise
        if reason is not None:
            await disconnect(connection)
            raise RedisConnectionError(f"{primary}: {reason}")
        return connection

    async def _open(self, changes: dict[str, Any]) -> AbstractConnection:
        if self._options.live is not None and "username" not in changes:
            user, password = login_of((await present(self._options)).url)
            changes = {**changes, "username": user or None, "password": password or None}
        connection = self._pool.connection_class(**self._pool.connection_kwargs | changes)
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
        except ResponseError as error:  # of SELECT, for a database that there is not: nothing can be sent
            await disconnect(connection)
            raise RedisConnectionError(f"the server refuses the connection: {error}") from None
        except BaseException:  # cancellation too: no half-open connection may be left behind
            await disconnect(connection)
            raise
        return connection


async def ping(connection: AbstractConnection, stream: str | None) -> None:
    """Ask whether the server takes writes. Raises RedisError or OSError: a replica counts as unreachable.

    ``stream`` is one that events were sent to. A server that is paused (CLIENT PAUSE, a failover) answers everything
    but writes, so this asks for one that Redis never does: an entry with the id 0-0.
    """
    await _answer(connection, "PING")
    if (reason := await read_only(connection)) is not None:
        raise RedisConnectionError(reason)
    if stream is not None:
        await _answer(connection, "XADD", stream, "0-0", "", "")


async def count_replicas(connection: AbstractConnection) -> int:
    """How many replicas are in step with the server. Raises RedisError or OSError."""
    await connection.send_command("WAIT", 0, 1)  # for none of them, so the answer comes at once
    reply: Any = await connection.read_response()
    return int(reply)


async def _answer(connection: AbstractConnection, *question: str) -> None:
    """Wait for any answer but that the server cannot be used; a user without the right to ask has one, too."""
    try:
        await connection.send_command(*question)
        await connection.read_response()
    except ResponseError as error:
        if isinstance(classify(error), Unreachable):
            raise


async def read_only(connection: AbstractConnection) -> str | None:
    """Why the server takes no writes now; None when it does, or does not say."""
    try:
        # HELLO is permitted to every user, in contrast to ROLE and INFO. A server before Redis 6 does not know it.
        await connection.send_command("HELLO")
        facts = _pairs(await connection.read_response())
        if facts.get("mode") == "cluster":  # a replica in a cluster says where the primary is
            await connection.send_command("CLUSTER", "INFO")
            state: Any = await connection.read_response()
            return "CLUSTERDOWN: cluster_state is fail" if "cluster_state:fail" in text(state) else None
    except ResponseError:
        return None
    return "READONLY: this server is a replica" if facts.get("role") in ("replica", "slave") else None


async def disconnect(connection: AbstractConnection) -> None:
    """Close a connection at once."""
    with suppress(RedisError, OSError):
        await connection.disconnect(nowait=True)


def text(value: Any) -> str:  # noqa: ANN401 - a reply has the type that the protocol gave it
    """A reply as text."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def address_of(connection: AbstractConnection) -> ServerAddress:
    """Where the connection goes; empty for a path."""
    return ServerAddress(getattr(connection, "host", ""), getattr(connection, "port", 0))


def _pairs(reply: Any) -> dict[str, str]:  # noqa: ANN401 - as above
    """The reply of HELLO: a mapping, or a list of names and values in turn."""
    items = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=False)
    return {text(name): text(value) for name, value in items}


def _connection_pool(url: str, connection_timeout: float) -> ConnectionPool:
    """The factory of connections; nothing is pooled and nothing connects.

    Raises ConfigError. redis-py's own errors hold parts of the URL; they are never shown.
    """
    _, _, rest = url.partition("://")
    first, *others = _LOGIN_END.split(rest)
    # An @ behind the host is the end of a login with a special character: its password would be read as host or port.
    if not url.lower().startswith("unix:") and ("@" in "".join(others) or not first):
        raise ConfigError(f"PUBLISHER_URL is not usable for Redis: {_SHAPE}")
    try:
        pool = ConnectionPool.from_url(url)
        pool.connection_kwargs |= {
            "socket_connect_timeout": connection_timeout,
            "socket_timeout": None,  # the session watches for silence itself
            "socket_keepalive": True,
            "decode_responses": False,
            "encoding": "utf-8",
            "health_check_interval": 0,
            "retry": Retry(NoBackoff(), 0),  # a repeat inside the library could overtake or double events
            "retry_on_timeout": False,
            "parser_class": BoundedParser,
        }
        if pool.connection_class.__name__.startswith("Unix"):
            del pool.connection_kwargs["socket_keepalive"]
        pool.make_connection()  # type: ignore[no-untyped-call]
    except (ValueError, TypeError, RedisError):
        raise ConfigError(f"PUBLISHER_URL, or a parameter in it, is not usable for Redis: {_SHAPE}") from None
    return pool
