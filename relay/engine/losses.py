"""Say when another session takes a lease that has not run out: most likely a relay with a shorter LEASE_TIMEOUT.

A relay reclaims what is older than its own LEASE_TIMEOUT, so with a shorter one it reclaims live leases of the others.
The fence keeps every outcome correct, but events use up attempts and are sent twice. Only the holder can see it: by its
own clock, which counts from before the claim or renewal was sent, the lease had not run out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from relay.core.durations import format_duration

logger = logging.getLogger(__name__)

_PAUSE = 10.0  # seconds between two lines


class LeaseLosses:
    """Writes one warning in ten seconds, with the number of leases since the last one."""

    def __init__(self, clock: Callable[[], float], lease_timeout: float) -> None:
        self._clock = clock
        self._lease_timeout = lease_timeout
        self._warned_at = float("-inf")
        self._events = 0

    def taken(self, events: int, expires_at: float) -> bool:
        """Report ``events`` lost leases unless they had run out; returns whether another session took them.

        ``expires_at`` is when they run out by the relay's clock.
        """
        now = self._clock()
        if now >= expires_at:
            return False
        self._events += events
        if now - self._warned_at >= _PAUSE:
            age = self._lease_timeout - (expires_at - now)
            logger.warning(
                "another session took %d live leases of this relay, at most %.1f s after their claim or renewal, "
                "although LEASE_TIMEOUT is %s. Most likely another relay on this table has a shorter LEASE_TIMEOUT: "
                "set the same value for every relay, then run relay-cli check.",
                self._events,
                age,
                format_duration(self._lease_timeout),
                extra={"action": "lease_taken", "events": self._events, "seconds": round(age, 1)},
            )
            self._warned_at = now
            self._events = 0
        return True
