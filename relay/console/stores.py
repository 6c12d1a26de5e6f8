"""The delivery log and the event store for the console's requests, each read in a loop of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from relay.app.build import delivery_log_opener
from relay.console.problems import RequestProblem
from relay.console.storethread import StoreThread
from relay.deliverylog import DeliveryLog
from relay.eventstore.browse import StoreBrowser, StoreSummary
from relay.postgres.sql import DEFAULT_SCHEMA
from relay.settings.settings import Settings

T = TypeVar("T")

_CONNECTIONS: Final = 4
_LOG_MISSING: Final = (
    "no delivery log is configured: set DELIVERY_LOG_URL for the relays, which record every attempt, and for the "
    "console; relay-cli log migrate creates its tables; docs/operate/delivery-log.md has the rest"
)


class LogAccess(StoreThread[DeliveryLog]):
    """The delivery log of DELIVERY_LOG_URL."""

    def __init__(self, settings: Settings) -> None:
        self.configured = settings.delivery_log_url is not None

        async def opened() -> DeliveryLog:
            return await delivery_log_opener(settings, _CONNECTIONS)()

        super().__init__("delivery log", opened)

    async def read(self, work: Callable[[DeliveryLog], Awaitable[T]]) -> T:
        """As ``StoreThread.read``. Raises RequestProblem without a log, too, DeliveryLogError and ConfigError."""
        if not self.configured:
            raise RequestProblem(503, "log-missing", _LOG_MISSING)
        return await super().read(work)


class StoreAccess(StoreThread[StoreBrowser]):
    """The event store of STORAGE_URL's database, in EVENT_STORE_SCHEMA."""

    def __init__(self, url: str, settings: Settings) -> None:
        self.schema = settings.event_store_schema or DEFAULT_SCHEMA

        async def opened() -> StoreBrowser:
            return StoreBrowser(url, self.schema)

        super().__init__("event store", opened)

    async def summary(self) -> StoreSummary | None:
        """The store as a whole; None where none is installed. Raises the errors of the database."""
        return await super().read(lambda store: store.summary())

    async def read(self, work: Callable[[StoreBrowser], Awaitable[T]]) -> T:
        """As ``StoreThread.read``. Raises RequestProblem where no store is installed, too."""

        async def read(store: StoreBrowser) -> T:
            if await store.summary() is None:
                raise store_missing(self.schema)
            return await work(store)

        return await super().read(read)


def store_missing(schema: str) -> RequestProblem:
    """The answer where no event store is installed."""
    message = (
        f"no event store is installed in schema {schema} of this database: run as the owner relay-cli store migrate, "
        "and set EVENT_STORE_SCHEMA where it is in another schema; docs/guide/event-store.md has the rest"
    )
    return RequestProblem(503, "store-missing", message)
