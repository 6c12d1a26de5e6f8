"""The ClickHouse client, off the event loop: one thread for the embedded engine, several for a server.

The embedded engine (chdb) is one per process and one process per folder; both limits get a clear error here.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import urlsplit

from relay.core.errors import ConfigError, RowRefused, StorageRefuses, reason_of
from relay.core.extras import install_advice, requires
from relay.core.origins import LiveSecret
from relay.core.secrets import mask_secrets
from relay.deliverylog.address import check_log_url
from relay.deliverylog.errors import DeliveryLogError, DeliveryLogUnavailable
from relay.deliverylog.limits import LONGEST_PAGE, too_slow

Result = TypeVar("Result")

# Sessions would make the queries of several threads wait for each other. Times are seconds. While a statement runs, the
# server sends its progress in the headers, so silence means a lost network and not a slow statement.
_SERVER_OPTIONS: dict[str, Any] = {"autogenerate_session_id": False, "connect_timeout": 4, "send_receive_timeout": 7}
_UNKNOWN_TABLE = "UNKNOWN_TABLE"
# A call whose task was cancelled keeps its thread until the socket times out; its place is free at once. So there are
# more threads than places.
_SPARE_THREADS = 4
_SETTINGS = re.compile(r"^SETTINGS [^)]*\Z", re.MULTILINE)
_TOO_SLOW = "TIMEOUT_EXCEEDED"
_BLAME_ROW = ("VIOLATED_CONSTRAINT", "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO")
"""What a constraint and a materialized view of the log's owner may raise: the first guess is the row."""
_TABLE_NAME = re.compile(r"'(?:\w+\.)?(\w+)'|[Tt]able(?:: | \w+\.)(\w+)")
# What an error calls the URL, which may hold a password.
_SERVER = "the delivery log clickhouse://…"
_EMBEDDED = "the delivery log chdb:///…"


class _Rows(Protocol):
    column_names: Sequence[str]
    result_rows: Sequence[Sequence[Any]]


class _Driver(Protocol):
    """The part of clickhouse-connect's client that is used here."""

    def query(self, query: str, *, parameters: dict[str, Any], column_formats: dict[str, str]) -> _Rows: ...

    def command(self, cmd: str, *, parameters: dict[str, Any]) -> object: ...

    def insert(
        self,
        table: str,
        data: Sequence[Sequence[Any]],
        *,
        column_names: Sequence[str],
        column_oriented: bool,
        settings: dict[str, Any],
    ) -> object: ...

    def close_connections(self) -> None: ...

    def close(self) -> None: ...


class ClickHouseClient:
    """Runs statements in threads of its own; raises the log's errors."""

    def __init__(self, url: str, threads: ThreadPoolExecutor, places: int, *, embedded: bool) -> None:
        """``open`` connects it."""
        self._url = url
        self._secret = LiveSecret(url)
        self._driver: _Driver | None = None
        self._connecting = threading.Lock()
        self._threads = threads
        self._places = asyncio.Semaphore(places)
        self.embedded = embedded

    @classmethod
    async def open(cls, url: str, connections: int) -> ClickHouseClient:
        """Connect. Raises ConfigError without the extra, DeliveryLogUnavailable when the server does not answer."""
        embedded = url.startswith("chdb:")
        with requires("clickhouse-embedded" if embedded else "clickhouse", _EMBEDDED if embedded else _SERVER):
            import clickhouse_connect  # noqa: F401, PLC0415 - an optional extra, and heavy
        places = 1 if embedded else max(connections, 1)
        threads = ThreadPoolExecutor(1 if embedded else places * _SPARE_THREADS, thread_name_prefix="clickhouse")

        client = cls(url, threads, places, embedded=embedded)
        try:
            await asyncio.get_running_loop().run_in_executor(threads, client._connected)
        except Exception:
            threads.shutdown(wait=False)
            raise
        return client

    def _connected(self) -> _Driver:
        """The driver, made again where the file of the URL has another one; in one of the threads."""
        url = self._url if self.embedded else self._secret.present()
        with self._connecting:
            if self._driver is None or url != self._url:
                self._forget_connections()
                self._driver, self._url = _connect(url, embedded=self.embedded), url
            return self._driver

    async def close(self) -> None:
        """Close the client and end the threads."""
        try:
            if self._driver is not None:
                await self._run(self._driver.close)
        finally:
            self._threads.shutdown(wait=False)

    async def rows(
        self, text: str, parameters: dict[str, Any] | None = None, *, seconds: float = LONGEST_PAGE
    ) -> Sequence[Sequence[Any]]:
        """The rows of a query; the column ``data`` as bytes. Raises ResourceLimit after ``seconds``."""
        return (await self.table(text, parameters, seconds=seconds))[1]

    async def table(
        self, text: str, parameters: dict[str, Any] | None = None, *, seconds: float = LONGEST_PAGE
    ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """The names of a query's columns, and its rows, as ``rows``."""
        # In the text: as options of a call the embedded engine would set and restore them in statements of their own.
        clause = ", " if _SETTINGS.search(text) else "\nSETTINGS "
        limited = f"{text}{clause}max_execution_time = {seconds}, timeout_overflow_mode = 'throw'"
        try:
            result = await self._run(
                lambda: self._connected().query(limited, parameters=parameters or {}, column_formats={"data": "bytes"})
            )
        except _Overdue as error:
            raise too_slow(seconds) from error
        return result.column_names, result.result_rows

    async def command(self, text: str, parameters: dict[str, Any] | None = None) -> None:
        """Run a statement that returns nothing."""
        await self._run(lambda: self._connected().command(text, parameters=parameters or {}))

    async def insert(self, table: str, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> None:
        """Insert columns of values; visible to the next read when this returns."""
        await self._run(
            lambda: self._connected().insert(
                table,
                columns,
                column_names=names,
                column_oriented=True,
                # One batch may touch more days than the default of 100 partitions, after an outage or in a copy.
                settings={"max_partitions_per_insert_block": 0, "async_insert": 0},
            )
        )

    async def _run(self, call: Callable[[], Result]) -> Result:
        try:
            async with self._places:
                return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except asyncio.CancelledError:
            self._forget_connections()
            raise
        except Exception as error:
            translated = _translated(error)
            if isinstance(translated, DeliveryLogUnavailable):
                self._forget_connections()
            raise translated from error

    def _forget_connections(self) -> None:
        """Close the idle connections: where one is dead the others may be, and each would cost a timeout to notice."""
        if not self.embedded and self._driver is not None:
            self._driver.close_connections()


def _connect(url: str, *, embedded: bool) -> _Driver:
    """A new driver. Raises DeliveryLogUnavailable, and ConfigError without the extra or for an invalid URL."""
    import clickhouse_connect  # noqa: PLC0415 - likewise

    check_log_url(url)
    if not url.lower().startswith(("clickhouse", "chdb")):
        raise ConfigError("DELIVERY_LOG_URL_FILE has the URL of another kind of database now: restart what reads it")
    try:
        client: Any = clickhouse_connect.get_client(dsn=url, **({} if embedded else _SERVER_OPTIONS))
    except Exception as error:  # noqa: BLE001 - the library documents none; each becomes an error of the log
        # The error of a server's URL may hold a part of the password.
        raise _unavailable(error, url, embedded=embedded) from (error if embedded else None)
    if not embedded:
        client.http_retries = 0  # another attempt to connect is another wait; the caller repeats the statement
    return cast("_Driver", client)


class _Overdue(DeliveryLogError):
    """A statement that the server ended at its deadline."""


def _translated(error: Exception) -> Exception:
    from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError  # noqa: PLC0415 - optional

    text = str(error)
    if isinstance(error, OperationalError):
        return DeliveryLogUnavailable("the delivery log's ClickHouse does not answer")
    if isinstance(error, DatabaseError) and _UNKNOWN_TABLE in text:
        table = _TABLE_NAME.search(text)
        name = table and (table[1] or table[2])
        missing = f"the delivery log's table {name} is missing" if name else "the delivery log's tables are missing"
        return DeliveryLogError(f"{missing}; run relay-cli log migrate")
    if isinstance(error, DatabaseError) and _TOO_SLOW in text:
        return _Overdue("the delivery log's ClickHouse cancelled a statement at its deadline")
    if isinstance(error, DatabaseError):
        refused = DeliveryLogError(f"the delivery log's ClickHouse refused: {text.splitlines()[0][:300]}")
        blames_row = any(name in text for name in _BLAME_ROW)
        refused.refusal = RowRefused(str(refused)) if blames_row else StorageRefuses(str(refused))
        return refused
    return error


def _unavailable(error: Exception, url: str, *, embedded: bool) -> Exception:
    if isinstance(error, ImportError):
        advice = install_advice("clickhouse-embedded")
        return ConfigError(f"{_EMBEDDED}: the Python library chdb is not installed. {advice}")
    if not embedded:
        unavailable = DeliveryLogUnavailable("the delivery log's ClickHouse does not answer, or refused the login")
        address = urlsplit(url)
        cause = reason_of(_first_cause(error)).partition("\n")[0]
        unavailable.reason = mask_secrets(f"{address.hostname} port {address.port or 'by default'}: {cause}")
        return unavailable
    if "already initialized" in str(error):
        return DeliveryLogUnavailable(
            "this process already has an embedded ClickHouse in another folder, and can have only one"
        )
    return DeliveryLogUnavailable(
        "the folder of the embedded ClickHouse cannot be opened: another process is using it, or it is not writable; "
        "stop that process, or use a ClickHouse server (clickhouse://…)"
    )


def _first_cause(error: Exception) -> Exception:
    """The error that the library and its HTTP client have wrapped: theirs say only that something failed."""
    while isinstance(inner := error.__cause__ or error.__context__, Exception):
        error = inner
    return error
