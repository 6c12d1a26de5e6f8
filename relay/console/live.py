"""Live pages: server-sent events that say when to fetch a page again.

For each page with viewers one task reads the outbox every ``TICK`` seconds, in a thread and with a connection
that both end with the reading. It tells all viewers of the page, and the part that they then fetch is rendered from the
same reading. Without viewers nothing is read. A viewer that waits is a coroutine: it holds no thread and no connection.

The messages of a stream:

- ``refresh``: fetch the page again. At once after a change of what is shown, and every ``QUIET`` seconds, for the ages.
- ``failed``: the outbox could not be read; data is a JSON object with ``detail``. The page says so.
- a comment at every other tick: it lets the access rules end the stream of a visitor who is no longer admitted.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

from anyio import to_thread

from relay.console.problems import RequestProblem, problem_of
from relay.console.readings import Readings, SharedReading
from relay.core.errors import OutboxError

LivePage = Literal["overview", "relays", "types"]

TICK: Final = 2.0
"""Seconds between two readings for a page."""
QUIET: Final = 10.0
"""Seconds after which a page is fetched again although nothing has changed."""
MOST_VIEWERS: Final = 200
"""Streams that one process serves at once."""

_LARGEST_SHARE: Final = 0.2  # of the time, that one page's readings take; slow ones are made less often
_LONGEST_PAUSE: Final = 20.0  # seconds; so the end of an outage shows
_REFRESH: Final = b"event: refresh\ndata: now\n\n"
_COMMENT: Final = b":\n\n"
_log = logging.getLogger(__name__)


class LivePages:
    """The streams of one process. Everything but the readings belongs to one event loop."""

    def __init__(self, readings: Readings, tick: float = TICK, quiet: float = QUIET, most: int = MOST_VIEWERS) -> None:
        self._most = most
        self._closed = False
        self._pages = {
            "overview": _PageFeed("overview", readings.overview, tick, quiet),
            "relays": _PageFeed("relays", readings.relays, tick, quiet),
            "types": _PageFeed("types", readings.types, tick, quiet),
        }

    @property
    def viewers(self) -> int:
        """How many streams are served now."""
        return sum(feed.viewers for feed in self._pages.values())

    @contextmanager
    def viewer(self, page: LivePage) -> Iterator[AsyncIterator[bytes]]:
        """The messages for one viewer of a page. Raises RequestProblem when there are too many, or at the shutdown."""
        if self._closed:
            raise RequestProblem(503, "shutting-down", "the console is shutting down")
        if self.viewers >= self._most:
            message = f"{self._most} browsers follow the outbox; this page is updated every few seconds instead"
            raise RequestProblem(503, "too-many-viewers", message)
        feed = self._pages[page]
        feed.join()
        try:
            yield feed.messages()
        finally:
            feed.leave()

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for feed in self._pages.values():
            feed.close()


class _PageFeed:
    """Reads for one page while it has viewers, and tells them."""

    def __init__(self, page: LivePage, reading: SharedReading[Any], tick: float, quiet: float) -> None:
        self._page = page
        self._reading = reading
        self._tick = tick
        self._quiet = quiet
        self._task: asyncio.Task[None] | None = None
        self._next: asyncio.Future[bytes] | None = None
        self.viewers = 0

    def join(self) -> None:
        self.viewers += 1
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="live page")

    def leave(self) -> None:
        self.viewers -= 1

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._tell(b"")

    async def messages(self) -> AsyncIterator[bytes]:
        """Each message from now on. A viewer that is slow to take one misses some: a later one says the same."""
        yield _COMMENT  # the headers are sent with it: the browser knows that it is connected
        while self._next is not None and (message := await asyncio.shield(self._next)):
            yield message

    async def _run(self) -> None:
        """Read and tell, until the last viewer has left for the time of a tick."""
        shown: object = None
        refreshed = 0.0
        while self.viewers:
            began = time.monotonic()
            try:
                value = await to_thread.run_sync(self._reading.get)
            except Exception as error:  # noqa: BLE001 - the viewers are told, and the next tick tries again
                if not isinstance(error, OutboxError):
                    _log.exception("the live %s cannot be read", self._page, extra={"action": "live_failed"})
                message, shown = _failure(error), None
            else:
                changed = value != shown or began - refreshed >= self._quiet
                message, shown = _REFRESH if changed else _COMMENT, value
                refreshed = began if changed else refreshed
            self._tell(message)
            took = time.monotonic() - began
            await asyncio.sleep(min(max(self._tick, took / _LARGEST_SHARE), _LONGEST_PAUSE))

    def _tell(self, message: bytes) -> None:
        """Wake every viewer. An empty message ends their streams."""
        current, self._next = self._next, asyncio.get_running_loop().create_future() if message else None
        if current is not None and not current.done():
            current.set_result(message)


def _failure(error: Exception) -> bytes:
    return b"event: failed\ndata: " + json.dumps({"detail": problem_of(error).detail}).encode() + b"\n\n"
