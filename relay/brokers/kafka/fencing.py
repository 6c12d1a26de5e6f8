"""Whether another living relay has this one's RELAY_ID: the two end each other's transactions, without end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from relay.core.clock import steady_seconds

_TIMES: Final = 30
"""Finders of expired leases end a relay of the same id that was started again, too: once a lease for each of them."""
_WITHIN: Final = 60.0  # seconds
_TICK: Final = 0.25
_STALL: Final = 0.5  # seconds without a tick: this relay was frozen, and may have been taken for dead with reason


class Fencings:
    """Counts how often this relay's epochs were ended for no reason of its own."""

    def __init__(self, relay_id: str) -> None:
        self._relay_id = relay_id
        self._counted: list[float] = []
        self._stalled_at = float("-inf")
        self._ticking: asyncio.Task[None] | None = None
        self.twin = ""
        """Why this relay publishes nothing any more; empty while it does."""

    def start(self) -> None:
        """Watch for stalls of this process."""
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
                now = steady_seconds()
                if now - last > _TICK + _STALL:
                    self._stalled_at = now
                last = now

    def count(self, since: float, *, in_force: bool) -> None:
        """An epoch that began at ``since`` was ended; ``in_force``: although the leases of what it carried were."""
        now = steady_seconds()
        latest = self._counted[-1] if self._counted else float("-inf")
        if not in_force or since < max(self._stalled_at, latest):
            return
        self._counted = [*(at for at in self._counted if now - at < _WITHIN), now]
        if len(self._counted) >= _TIMES:
            self.twin = (
                f"another living relay has RELAY_ID {self._relay_id}: it ended this one's transactions {_TIMES} times "
                "in a minute, with all leases in force; this relay takes no more events. Give each an id of its own"
            )
