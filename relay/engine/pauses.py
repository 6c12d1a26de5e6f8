"""Pauses: what an operator holds back, read once a second, said in the log, /readyz, /stats and metrics.

The storage leaves paused events out of its claims; what is in flight when a pause begins is finished. A pause is no
failure: the relay stays ready. When the pauses cannot be read, those that were read last stay in force.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from relay.core.errors import SchemaError, StorageError
from relay.core.optional_parts import Pauses
from relay.core.pause import Pause, PauseScope
from relay.engine.context import EngineContext

logger = logging.getLogger(__name__)

_INTERVAL = 1.0  # seconds
_REMIND_SECONDS = 60.0


class PauseWatch:
    """One loop, ``run``; the others only look at what it has read."""

    def __init__(self, context: EngineContext, pauses: Pauses | None, changed: Callable[[], None]) -> None:
        """``changed`` is called when a pause has ended: there may be something to claim."""
        self._pauses = pauses
        self._changed = changed
        self._telemetry = context.telemetry
        self._clock = context.clock
        self._reminded_at = float("-inf")
        self._problem = ""
        self.in_force: Sequence[Pause] = ()

    def sentences(self) -> list[str]:
        """The pauses in force, one sentence each."""
        return [str(pause) for pause in self.in_force]

    def degraded(self) -> Mapping[str, str]:
        """Why the pauses cannot be read, for /readyz; empty when they can."""
        return {"pauses": self._problem} if self._problem else {}

    @property
    def everything(self) -> Pause | None:
        """The pause of the whole outbox, where there is one."""
        return next((pause for pause in self.in_force if pause.target.scope is PauseScope.ALL), None)

    async def run(self) -> None:
        """Read without end."""
        while True:
            if self._pauses is not None:
                await self._read(self._pauses)
            await asyncio.sleep(_INTERVAL)

    async def _read(self, pauses: Pauses) -> None:
        try:
            in_force = await pauses.read()
        except StorageError as error:
            self._failed(error)
            return
        self._problem = ""
        before, self.in_force = {pause.target: pause for pause in self.in_force}, in_force
        now = {pause.target for pause in in_force}
        self._telemetry.pauses(len(in_force))
        for pause in in_force:
            if before.get(pause.target) != pause:
                logger.warning("%s", pause, extra={"action": "paused", "target": str(pause.target)})
        for target in before.keys() - now:
            logger.info("%s is resumed", target, extra={"action": "resumed", "target": str(target)})
        if before.keys() - now:
            self._changed()

    def _failed(self, error: StorageError) -> None:
        """Report what an operator must set right; a database that is away is reported by what needs it."""
        self._problem = str(error) if isinstance(error, SchemaError) else ""
        now = self._clock()
        if now - self._reminded_at >= _REMIND_SECONDS:
            self._reminded_at = now
            message = "the pauses cannot be read, those read before stay in force: %s"
            logger.warning(message, error, extra={"action": "pauses_unread"})
