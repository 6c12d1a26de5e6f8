"""The stream that tells a page when to fetch itself again."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from relay.console.api.requests import Reader
from relay.console.context import ConsoleParts
from relay.console.live import LivePage, LivePages

router = APIRouter(include_in_schema=False)

_HEADERS: Final = {"X-Accel-Buffering": "no"}  # a proxy that collects answers would hold the messages back


class _LiveStream(Response):
    """Counts as a viewer from its first byte until its end, however it ends."""

    def __init__(self, live: LivePages, page: LivePage) -> None:
        super().__init__()
        self._live = live
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises RequestProblem before anything is sent."""
        with self._live.viewer(self._page) as messages:
            await StreamingResponse(messages, headers=_HEADERS, media_type="text/event-stream")(scope, receive, send)


@router.get("/live")
async def live(console: ConsoleParts, identity: Reader, followed: Annotated[LivePage, Query(alias="page")]) -> Response:
    """Server-sent events of one page: refresh, failed."""
    del identity
    return _LiveStream(console.live, followed)
