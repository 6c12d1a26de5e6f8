"""Runs an ASGI application in a thread and event loop of its own, so that its work never holds the engine's loop.

The server stays in the engine's loop: it hands over a request, and gets the whole answer back in pieces. Requests with
a body are not supported: the application sees an empty one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger("relay.deliverylog")

_PIECE: Final = 65536  # bytes that the server is given at once; it waits for a slow client between two of them
_CLOSED_WITHIN: Final = 1.0  # seconds


class ApartApp:
    """The application in its own thread, which the first request starts. ``close`` once, in the server's loop."""

    def __init__(self, app: ASGIApp, on_close: Callable[[], Awaitable[None]]) -> None:
        """``on_close`` is awaited in the application's own loop."""
        self._app = app
        self._on_close = on_close
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        del receive  # it belongs to the server's loop
        answer = asyncio.run_coroutine_threadsafe(_answer(self._app, scope), self._started())
        for message in await asyncio.wrap_future(answer):
            if message["type"] != "http.response.body":
                await send(message)
                continue
            body = message.get("body", b"")
            for start in range(0, max(len(body), 1), _PIECE):
                more = start + _PIECE < len(body) or message.get("more_body", False)
                await send({"type": "http.response.body", "body": body[start : start + _PIECE], "more_body": more})

    async def close(self) -> None:
        """End the thread; never raises."""
        if self._loop is None or self._thread is None:
            return
        closing = asyncio.run_coroutine_threadsafe(self._closed(), self._loop)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(closing), _CLOSED_WITHIN)
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, _CLOSED_WITHIN)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="delivery-log-api", daemon=True)
            self._thread.start()
        return self._loop

    async def _closed(self) -> None:
        try:
            await self._on_close()
        except Exception:  # noqa: BLE001 - the daemon is ending; the error must not end it otherwise
            _log.exception("closing the delivery log's API failed")


async def _answer(app: ASGIApp, scope: Scope) -> list[Message]:
    """The messages with which the application answers."""
    messages: list[Message] = []
    requests: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if requests:
            return requests.pop()
        await asyncio.Event().wait()  # the client never hangs up: what bounds a request is its time
        raise AssertionError("unreachable")

    async def send(message: Message) -> None:
        messages.append(message)

    await app(dict(scope), receive, send)
    return messages
