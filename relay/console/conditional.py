"""ETags: 304 without a body for a client that has the answer already (RFC 9110, If-None-Match).

``ConditionalGet`` does it for every answer of the API to a GET; the live pages ask for their part alone and compare its
tag before it is rendered where they can (``relay.console.pages.live``). Without If-None-Match, and for every answer but
a 200, nothing changes but the header ETag.
"""

from __future__ import annotations

import hashlib
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_OF_THE_BODY: Final = frozenset({b"content-length", b"content-type"})


def digest(content: bytes) -> str:
    """A short text that stands for this content alone."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def has_already(headers: Headers, tag: str) -> bool:
    """Whether If-None-Match names the tag. A proxy that compresses may have made it a weak one."""
    sent = [each.strip().removeprefix("W/") for each in ",".join(headers.getlist("if-none-match")).split(",")]
    return tag in sent or "*" in sent


def not_modified(tag: str) -> Response:
    """The answer to a client that has it already."""
    return Response(status_code=304, headers={"ETag": tag})


class ConditionalGet:
    """Adds an ETag to the answers to GET below ``prefix`` that have none, and answers 304 where the client has it."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith(self._prefix):
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def conditional(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and message["status"] == 200:
                start = message  # until the body is known
                return
            if start is not None:
                held, start = start, None
                if not message.get("more_body") and _unchanged(held, message, Headers(scope=scope)):
                    kept = [pair for pair in held["headers"] if pair[0] not in _OF_THE_BODY]
                    held, message = {**held, "status": 304, "headers": kept}, {**message, "body": b""}
                await send(held)
            await send(message)

        await self._app(scope, receive, conditional)


def _unchanged(start: Message, body: Message, request: Headers) -> bool:
    """Tag the answer, unless its route did, and say whether the client has it."""
    headers = MutableHeaders(scope=start)
    headers.setdefault("ETag", f'"{digest(body.get("body", b""))}"')
    return has_already(request, headers["ETag"])
