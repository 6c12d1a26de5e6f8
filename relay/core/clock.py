"""The clocks: the one by which leases and pauses are measured, and the database's, which dates what others read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

_BOOT_TIME: Final = getattr(time, "CLOCK_BOOTTIME", None)  # Linux has it
_EXACT: Final = 1.0  # seconds; an answer that took longer says less than an older one
_OLD: Final = 60.0  # seconds after which it says more
_LONGEST_OFFSET: Final = 30.0  # seconds; receivers of webhooks take five minutes
_SAY_AGAIN: Final = 3600.0  # seconds


def steady_seconds() -> float:
    """Seconds that never go back, and that pass while the host is suspended, where the platform can tell.

    ``time.monotonic`` stops while a Linux host sleeps or its virtual machine is paused by a suspend: a lease would seem
    to have time left that has run out in the database.
    """
    return time.monotonic() if _BOOT_TIME is None else time.clock_gettime(_BOOT_TIME)


class DatabaseClock:
    """The database's time, as the claims show it: for what is signed or stamped for others.

    The host's clock may be wrong by minutes, and receivers refuse such a time for good. Each claim that brings events
    says the database's time; since then the steady clock counts. Before the first claim it is the host's time. One
    thread uses it; it does not fail.
    """

    def __init__(self, host: Callable[[], float] = time.time, steady: Callable[[], float] = steady_seconds) -> None:
        self._host = host
        self._steady = steady
        self._ahead: float | None = None
        """Of the steady clock; None before it was measured."""
        self._measured_at = float("-inf")
        self._said_at = float("-inf")

    def now(self) -> float:
        """Seconds since 1970, by the database's clock."""
        return self._host() if self._ahead is None else self._steady() + self._ahead

    @property
    def offset(self) -> float:
        """Seconds by which the database's clock is ahead of this host's; 0.0 before it was measured."""
        return 0.0 if self._ahead is None else self.now() - self._host()

    def measured(self, theirs: float, sent_at: float, answered_at: float) -> None:
        """The database's clock said ``theirs`` between these two times of the steady clock."""
        if answered_at - sent_at > _EXACT and answered_at - self._measured_at < _OLD:
            return
        self._ahead = theirs - (sent_at + answered_at) / 2
        self._measured_at = answered_at
        offset = self.offset
        if abs(offset) > _LONGEST_OFFSET and answered_at - self._said_at >= _SAY_AGAIN:
            self._said_at = answered_at
            logger.warning(
                "this host's clock is %.0f s %s the database's. Times that are signed or stamped for others "
                "(webhook-timestamp, the timestamp of a Kafka message) are the database's; AWS requests, logs and "
                "traces have this host's. Synchronize both clocks by NTP",
                abs(offset),
                "behind" if offset > 0 else "ahead of",
                extra={"action": "clock_offset", "seconds": round(offset, 3)},
            )
