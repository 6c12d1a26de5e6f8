"""Readings of the outbox that all viewers share: one at a time, and at most one a second, for each page.

So a page costs the database the same for one viewer and for a hundred, and a hundredth of one connection's time while
a reading takes less than 0.1 s. A change through this console makes every reading old at once: who changes something
sees it on the next page.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, NamedTuple, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relay.app.broken import OutboxState, read_state
from relay.console.access.middleware import SAFE_METHODS
from relay.core.errors import StorageBusy
from relay.outbox.admin.event_types import read_event_types
from relay.outbox.admin.explain import FailureReading, read_causes
from relay.outbox.admin.relays import read_fleet
from relay.postgres.sql import TableName

T = TypeVar("T")

FRESH: Final = 1.0
"""Seconds for which a reading is shown again; a slow one a hundred times as long as it took."""
_REST: Final = 100.0
_LONGEST_FRESH: Final = 10.0  # seconds


class _Outcome(NamedTuple, Generic[T]):
    value: T | None
    error: Exception | None
    began: float
    ended: float


class SharedReading(Generic[T]):
    """One kind of reading. Threads may call it at once."""

    def __init__(
        self, read: Callable[[], T], fresh: float = FRESH, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._fresh = fresh
        self._clock = clock
        self._lock = threading.Lock()
        self._last: _Outcome[T] | None = None
        self._old_before = float("-inf")

    def get(self) -> T:
        """A reading that is fresh, or ended while this call waited; else a new one.

        Raises what the reading raises; of those who waited for a reading that failed, each gets its error.
        """
        asked = self._clock()
        with self._lock:
            if self._last is None or not self._serves(self._last, asked):
                self._last = self._new()
            last = self._last
        if last.error is not None:
            raise last.error
        return last.value  # type: ignore[return-value] # a value where there is no error

    def forget(self) -> None:
        """Show no reading again that began before now."""
        self._old_before = self._clock()

    def _serves(self, last: _Outcome[T], asked: float) -> bool:
        if last.began <= self._old_before:
            return False
        # An error is not remembered: only who waited for it would otherwise wait for the next one too.
        fresh = max(self._fresh, min(_REST * (last.ended - last.began), _LONGEST_FRESH))
        return last.ended >= asked or (last.error is None and asked - last.ended < fresh)

    def _new(self) -> _Outcome[T]:
        began = self._clock()
        try:
            return _Outcome(self._read(), None, began, self._clock())
        except Exception as error:  # noqa: BLE001 - handed to every caller
            return _Outcome(None, error, began, self._clock())


class Readings:
    """What the pages that follow the outbox show."""

    def __init__(self, url: str, table: TableName, store_schema: str | None = None) -> None:
        self.overview = SharedReading(lambda: read_state(url, table, store_schema, timeline=True))
        self.state = SharedReading(lambda: read_state(url, table, store_schema))
        self.relays = SharedReading(lambda: read_fleet(url, table))
        self.types = SharedReading(lambda: read_event_types(url, table))
        self.causes = SharedReading(lambda: read_causes(url, table))

    def with_causes(self, reading: SharedReading[OutboxState]) -> tuple[OutboxState, FailureReading]:
        """Both, read at once. Where the causes take too long, their sample says so. Raises as ``read_state``."""
        with ThreadPoolExecutor(1) as beside:
            failing = beside.submit(self.causes.get)
            state = reading.get()
        try:
            return state, failing.result()
        except StorageBusy as busy:
            return state, FailureReading([], f"Why events fail was not read: {busy}.")

    def forget(self) -> None:
        """Show no reading again that began before now: something was changed."""
        for reading in (self.overview, self.state, self.relays, self.types, self.causes):
            reading.forget()


class FreshAfterChanges:
    """Forgets the readings before the answer to a request that may have changed something."""

    def __init__(self, app: ASGIApp, readings: Readings) -> None:
        self._app = app
        self._readings = readings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            await self._app(scope, receive, send)
            return

        async def send_after_forgetting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._readings.forget()
            await send(message)

        await self._app(scope, receive, send_after_forgetting)
