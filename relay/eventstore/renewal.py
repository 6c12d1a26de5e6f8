"""Renews the leases of a store's subscriptions on a thread and on connections of their own.

A consumer may block the event loop: a handler that computes, a large page that is decoded. Its lease must not end
meanwhile, or another instance takes over, reads the same page, loses its lease too, and so on. A process that is
stopped or killed renews nothing: its thread is stopped with it.

Used by ``Subscription``. Nothing here raises into the consumer: a lease that is lost is reported by a callback, a
database that does not answer is logged, and asked again at the next turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from typing import Final

from relay.core.errors import StorageError
from relay.eventstore.database import Database
from relay.eventstore.errors import SubscriptionLost

_log = logging.getLogger(__name__)

Renewal = Callable[[Database], Awaitable[None]]
_MOST_CONNECTIONS: Final = 256
"""Made as they are needed: one, unless renewals of several subscriptions overlap, for example behind a row lock."""


class Renewals:
    """The thread of one store: starts with its first lease, ends with ``close``."""

    def __init__(self, database: Database) -> None:
        """``database`` gives the parameters of its connections; none of its own is used."""
        self._database = database.apart(_MOST_CONNECTIONS)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._renewing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def keeping(self, renew: Renewal, interval: float, lost: Callable[[], None]) -> AsyncIterator[None]:
        """Renew a lease every ``interval`` seconds; call ``lost`` in the caller's loop once it is another's."""
        own_loop = asyncio.get_running_loop()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the caller's loop was closed
                own_loop.call_soon_threadsafe(lost)

        renewing: Future[None] = asyncio.run_coroutine_threadsafe(
            self._renew_until_lost(renew, interval, tell), self._running_loop()
        )
        try:
            yield
        finally:
            renewing.cancel()

    async def close(self) -> None:
        """End the thread, after closing its connections."""
        if self._loop is None or self._thread is None:
            return
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._end(), loop))
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join)
        loop.close()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="eventstore-leases", daemon=True)
            self._thread.start()
        return self._loop

    async def _renew_until_lost(self, renew: Renewal, interval: float, lost: Callable[[], None]) -> None:
        task = asyncio.ensure_future(self._renew(renew, interval, lost))
        self._renewing.add(task)
        try:
            await task
        except Exception:  # noqa: BLE001 - a fault of ours: the lease must not end in silence
            _log.exception("event store: a lease is no longer renewed, and is taken again")
            lost()
        finally:
            self._renewing.discard(task)

    async def _renew(self, renew: Renewal, interval: float, lost: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(interval)
            try:
                await renew(self._database)
            except SubscriptionLost:
                lost()
                return
            except StorageError as error:
                _log.warning("event store: a lease cannot be renewed: %s", error)

    async def _end(self) -> None:
        """In the thread. The pool's own tasks are left to it: one that closes a connection must get to its end."""
        tasks = list(self._renewing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._database.close()
