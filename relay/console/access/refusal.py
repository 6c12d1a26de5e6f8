"""How the console refuses a request: one error, and its answer for a program, for htmx and for a person."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from relay.console.access.templates import render
from relay.console.problems import RequestProblem, problem_of

_OF_LOGINS: Final = re.compile(r"/login(?!s)|/oidc/")
"""Paths that a login must not lead back to: it would begin once more."""
_KINDS = {400: "bad-request", 401: "unauthorized", 403: "forbidden", 413: "too-large", 415: "unsupported", 429: "busy"}


class AccessRefused(RequestProblem):
    """A request that is not admitted. The message says why, and nothing about which part of a login was wrong."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, _KINDS[status], message)
        self.headers = dict(headers or {})


_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="openoutbox"'}


def unauthenticated() -> AccessRefused:
    """Without a login, or with a wrong one: both read the same."""
    message = (
        "log in, or send a token that CONSOLE_TOKENS_FILE names, or to the API the token of API_TOKEN: Authorization: "
        "Bearer TOKEN"
    )
    return AccessRefused(401, message, _CHALLENGE)


def too_many(wait: float) -> AccessRefused:
    """Too many attempts; ``wait`` is in seconds."""
    seconds = math.ceil(wait)
    return AccessRefused(429, f"too many logins failed; try again in {seconds} s", {"Retry-After": str(seconds)})


def answer(request: Request, refused: AccessRefused) -> Response:
    """A person is led to the login or reads a page; a program gets a problem (RFC 9457)."""
    person = "text/html" in request.headers.get("accept", "")
    if refused.status == 401 and "hx-request" in request.headers:
        target = login_path(_path(request.headers.get("hx-current-url", "")))
        return Response(status_code=401, headers={**refused.headers, "HX-Redirect": target})
    if refused.status == 401 and person and request.method in ("GET", "HEAD"):
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(login_path(path), 303)
    if person:
        return HTMLResponse(render("refused.html", message=str(refused)), refused.status, refused.headers)
    return problem_of(refused).response(refused.headers)


def _path(address: str) -> str:
    """The path and query of an address; empty for what is none."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    return parts.path + (f"?{parts.query}" if parts.query else "")


def login_path(path: str) -> str:
    """The login page, which leads back to ``path``."""
    target = local_path(path)
    return "/login" if target == "/" else f"/login?next={quote(target)}"


def local_path(text: str) -> str:
    """``text`` when it is a path of this console, else ``/``: a login must not lead to another host."""
    # Browsers read a backslash as a slash and drop tabs and line ends, so that /\\host and /<tab>/host are //host.
    local = text.startswith("/") and not text.startswith("//") and "\\" not in text and text.isprintable()
    return text if local and len(text) <= 2000 and not _OF_LOGINS.match(text) else "/"
