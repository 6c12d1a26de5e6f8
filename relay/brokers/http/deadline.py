"""The time in which an answer must come: a server at the end of a slow link is not a silent one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from relay.brokers.sending import SendProgress

_LATE: Final = 0.2  # seconds that a look may be late because the process did not run
_LOOKS: Final = 4  # at what still leaves this host, in one timeout
_AGAIN: Final = 0.05  # seconds until the next look then, in which what has arrived is read
_MOST_AGAIN: Final = 5  # of those
_GONE_AT_ONCE: Final = 14_000  # bytes that a host sends before it waits for any acknowledgement, by RFC 6928


class Deadline:
    """Calls ``expired`` once, unless it is cancelled before.

    The time begins again while bytes of the request still leave this host. A process that did not run for a while reads
    first what has arrived meanwhile.
    """

    def __init__(
        self, transport: asyncio.WriteTransport, written: int, timeout: float, expired: Callable[[], None]
    ) -> None:
        """``transport`` has taken the request, of ``written`` bytes."""
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._expired = expired
        self._progress = SendProgress(transport)
        self._progress.written = self._end = written
        self._again = 0
        self._since = self._loop.time()
        """When bytes of the request left last, as far as the looks have seen."""
        if written > _GONE_AT_ONCE:
            self._follow()
        else:  # a look at each request would cost as much as its signature
            self._progress.received = written
        self._arm(timeout / _LOOKS)

    def cancel(self) -> None:
        """The answer is there."""
        self._timer.cancel()

    def _arm(self, delay: float) -> None:
        self._due = self._loop.time() + delay
        self._timer = self._loop.call_at(self._due, self._look)

    def _follow(self) -> None:
        """Look at what has left; the time begins when bytes of the request left last."""
        self._progress.look(self._loop.time())
        self._since = max(self._since, self._progress.seen_leaving(self._end))

    def _look(self) -> None:
        now = self._loop.time()
        self._follow()
        left = self._since + self._timeout - now
        if left > 0:
            self._arm(min(left, self._timeout / _LOOKS))
        elif now - self._due > _LATE and self._again < _MOST_AGAIN:
            self._again += 1
            self._arm(_AGAIN)
        else:
            self._expired()
