"""Whether another living relay has this one's RELAY_ID: the two end each other's transactions, until one stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from relay.core.clock import steady_seconds

_log = logging.getLogger(__name__)

_TIMES: Final = 30
"""Finders of expired leases end a relay of the same id that was started again, too: once a lease for each of them."""
_WITHIN: Final = 60.0  # seconds
_TICK: Final = 0.25
_STALL: Final = 0.5  # seconds without a tick: this relay was frozen, and may have been taken for dead with reason


class Fencings:
    """Counts how often this relay's epochs were ended for no reason of its own."""

    def __init__(self, relay_id: str, goes_on: Callable[[], Awaitable[bool]]) -> None:
        """``goes_on``: whether this one, of two that may both have stopped, is the one to go on."""
        self._relay_id = relay_id
        self._goes_on = goes_on
        self.decided = False
        """Of the two the other one goes on, or has stopped."""
        self._counted: list[float] = []
        self._stalled_at = float("-inf")
        self._ticking: asyncio.Task[None] | None = None
        self.twin = ""
        """Why this relay publishes nothing any more; empty while it does."""

    def start(self) -> None:
        """Watch for stalls of this process, and for a twin."""
        self._ticking = asyncio.get_running_loop().create_task(self._tick())

    def stop(self) -> None:
        """Watch no longer."""
        if self._ticking is not None:
            self._ticking.cancel()

    async def _tick(self) -> None:
        last = steady_seconds()
        with suppress(asyncio.CancelledError):
            while True:
                await asyncio.sleep(_TICK)
                if self.twin and not self.decided:
                    await self._decide()
                    last = steady_seconds()
                now = steady_seconds()
                if now - last > _TICK + _STALL:
                    self._stalled_at = now
                last = now

    async def _decide(self) -> None:
        """The other one has counted as many, and may have stopped for it, too."""
        goes_on = await self._goes_on()
        self.decided = True
        if goes_on:
            self._counted, self.twin = [], ""
            _log.warning(
                "the other relay with RELAY_ID %s uses its transactions no longer: this one goes on",
                self._relay_id,
                extra={"action": "twin_stopped"},
            )

    def count(self, since: float, *, in_force: bool) -> None:
        """An epoch that began at ``since`` was ended; ``in_force``: although the leases of what it carried were."""
        now = steady_seconds()
        latest = self._counted[-1] if self._counted else float("-inf")
        if self.twin or not in_force or since < max(self._stalled_at, latest):
            return
        self._counted = [*(at for at in self._counted if now - at < _WITHIN), now]
        if len(self._counted) >= _TIMES:
            self.decided = False
            self.twin = (
                f"another living relay has RELAY_ID {self._relay_id}: it ended this one's transactions {_TIMES} times "
                "in a minute, with all leases in force; this relay takes no more events. Give each an id of its own"
            )
