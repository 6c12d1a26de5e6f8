"""Places for requests that read the outbox's database: a hung one costs the requests that need it, and no others.

Each place is a thread and at most two connections (``Readings.with_causes``). A request takes one when its role is
admitted, and gives it back when its answer begins, so that a client which reads slowly holds none. While no place
becomes free, those who wait are refused: the statements that hold them may take their whole deadline, and each queue
behind them another one.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relay.console.problems import RequestProblem

MOST_PLACES: Final = 8
"""Requests that work with the database at once."""
PATIENCE: Final = 2.0
"""Seconds without a place becoming free after which those who wait are refused."""
_FREE: Final = ("/logins/", "/logout/", "/log/", "/store/")
"""What needs a role and no place: it reads nothing, or a store with a bound of its own."""
_FREE_API: Final = ("/log/", "/store/tenants/", "/store/subscriptions/")


class DatabasePlaces:
    """Lets ``MOST_PLACES`` requests at once work: ``relay.console.access.route_roles`` awaits ``state.take_place``."""

    def __init__(self, app: ASGIApp, api: str) -> None:
        self._app = app
        self._free_paths = (*_FREE, *(f"{api}{path}" for path in _FREE_API))
        self._places = asyncio.Semaphore(MOST_PLACES)
        self._released = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or f"{scope['path']}/".startswith(self._free_paths):
            await self._app(scope, receive, send)
            return
        held = False

        async def take() -> None:
            nonlocal held
            held = held or await self._taken()

        def release() -> None:
            nonlocal held
            if held:
                held = False
                self._released += 1
                self._places.release()

        async def send_and_release(message: Message) -> None:
            release()
            await send(message)

        scope.setdefault("state", {})["take_place"] = take
        try:
            await self._app(scope, receive, send_and_release)
        finally:
            release()

    async def _taken(self) -> bool:
        """Wait for a place, as long as places become free. Raises RequestProblem."""
        while True:
            before = self._released
            try:
                async with asyncio.timeout(PATIENCE):
                    return await self._places.acquire()
            except TimeoutError:
                if self._released == before:
                    message = f"{MOST_PLACES} requests wait for the database; it answered none for {PATIENCE:.0f} s"
                    raise RequestProblem(503, "busy", message, {"Retry-After": "2"}) from None
