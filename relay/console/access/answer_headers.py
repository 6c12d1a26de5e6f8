"""The headers of every answer: no other host's content, no frame, no copy in a cache."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

STATIC: Final = "/static/"
"""Files that are the same for every user; a browser may keep them."""

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: with it a browser sends Origin: null from the console's own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HTTPS_ONLY: Final = "max-age=31536000"


def with_headers(send: Send, path: str, url: str | None) -> Send:
    """Add the headers to what a route sends; ``url`` is CONSOLE_URL."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            if url is not None and url.startswith("https://"):
                headers["Strict-Transport-Security"] = _HTTPS_ONLY
            if not path.startswith(STATIC):
                headers["Cache-Control"] = "no-store"
        await send(message)

    return send_with_headers
