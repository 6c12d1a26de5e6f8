"""Look behind the place where claims begin, a small part of the time, and wake the claims when something waits there.

The storage decides where claims begin, what is looked at, and when again (``relay.core.storage.OutboxStorage.look``). A
look that fails changes nothing: claims go on from where they began, and the next look is a second later. A database
that is away is reported by what needs it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from relay.core.errors import StorageError
from relay.core.storage import Rest
from relay.engine.context import EngineContext

logger = logging.getLogger(__name__)

_AFTER_ERROR = Rest(1.0, claimable=False)


class LookBehind:
    """One loop, ``run``; the only one that calls ``look``."""

    def __init__(self, context: EngineContext, wake: Callable[[], None]) -> None:
        """``wake`` is called when a look found something to claim."""
        self._storage = context.storage
        self._wake = wake

    async def run(self) -> None:
        """Look, rest, without end."""
        while True:
            rest = await self._look()
            if rest.claimable:
                self._wake()
            await asyncio.sleep(rest.seconds)

    async def _look(self) -> Rest:
        try:
            return await self._storage.look()
        except StorageError as error:
            logger.debug("%s", error)
            return _AFTER_ERROR
