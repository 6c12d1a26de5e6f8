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
from relay.core.storage import OutboxStorage, Rest

logger = logging.getLogger(__name__)

_AFTER_ERROR = Rest(1.0, claimable=False)


async def look_behind(storage: OutboxStorage, wake: Callable[[], None]) -> None:
    """Look, rest, without end. ``wake`` is called when a look found something to claim."""
    while True:
        try:
            rest = await storage.look()
        except StorageError as error:
            logger.debug("%s", error)
            rest = _AFTER_ERROR
        if rest.claimable:
            wake()
        await asyncio.sleep(rest.seconds)
