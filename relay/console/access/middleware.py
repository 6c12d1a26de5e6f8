"""The middleware around every route: who sends the request, whether it may change anything, and the headers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from relay.console.access.answer_headers import with_headers
from relay.console.access.gate import AccessGate, Proof, Visitor
from relay.console.access.login_page import CSRF_FIELD, KeptForm, form_fields, refused_form
from relay.console.access.origin import from_another_site, names_this_console
from relay.console.access.refusal import AccessRefused, answer, unauthenticated
from relay.console.access.route_roles import is_open, route_rules

CSRF_HEADER: Final = "x-csrf-token"

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Requests by these change nothing."""
_LARGEST_FORM: Final = 2**16  # bytes
_LARGEST_BODY: Final = 2**18  # bytes of any other request; a change of 1,000 events by their ids has 40,000
_FORM: Final = "application/x-www-form-urlencoded"
_POLICY_VIOLATION: Final = 1008


class AccessMiddleware:
    """Admits requests to ``app``; ``application`` is the one whose routes it guards."""

    def __init__(self, app: ASGIApp, gate: AccessGate, application: FastAPI) -> None:
        self._app = app
        self._gate = gate
        self._application = application
        self._examined = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "websocket":
            await WebSocketClose(_POLICY_VIOLATION)(scope, receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, with_headers(send, scope["path"], self._gate.options.url))
        else:
            await self._app(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._examined:
            route_rules(self._application)  # a route without a rule: an error, before any route has answered
            self._examined = True
        request = Request(scope, receive)
        try:
            visitor, receive = await self._admit(request, receive)
        except _FormRefused as refused:
            await refused_form(self._gate, request, refused, refused.kept)(scope, receive, send)
            return
        except AccessRefused as refused:
            await answer(request, refused)(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["identity"] = visitor.identity
        state["login"] = visitor.login
        state["proof"] = visitor.proof
        state[CSRF_FIELD] = self._gate.logins.csrf_token(visitor.login) if visitor.login is not None else ""
        await self._run(scope, receive, send)

    async def _admit(self, request: Request, receive: Receive) -> tuple[Visitor, Receive]:
        """Who sends the request, and how to read its body. Raises AccessRefused."""
        headers, options = request.headers, self._gate.options
        path = request.scope["path"]
        if len(headers.getlist("host")) > 1:
            raise AccessRefused(400, "send one Host header")
        if path != "/healthz" and not names_this_console(headers, options):
            raise AccessRefused(403, "this is not the address of the console; see CONSOLE_URL")
        changes = request.method not in SAFE_METHODS
        bearer = headers.get("authorization", "").lower().startswith("bearer ")
        if changes and not bearer and from_another_site(headers, options):
            raise AccessRefused(403, "the page of another site sent this request")
        visitor = self._gate.identify(request)
        if visitor.identity is None and not is_open(path):
            refused = unauthenticated()
            if changes and _keeps(request):
                raise _FormRefused(401, str(refused), request, await _bounded(request, receive, _LARGEST_FORM))
            raise refused
        return visitor, await self._check_body(request, receive, visitor) if changes else receive

    async def _check_body(self, request: Request, receive: Receive, visitor: Visitor) -> Receive:
        """Bound the body, and hold a browser's request to its CSRF token. Raises AccessRefused."""
        by_browser = visitor.proof is Proof.COOKIE
        if by_browser and visitor.login is None:
            raise AccessRefused(
                403,
                "the browser sent no cookie of this console. It keeps one over https, and over http for localhost and "
                "127.0.0.1; load the page again",
            )
        form = _is_form(request)
        if visitor.identity is None and not form:
            raise AccessRefused(415, "send the form of the login page")
        body = await _bounded(request, receive, _LARGEST_FORM if form else _LARGEST_BODY)
        if by_browser:
            tokens = request.headers.getlist(CSRF_HEADER) or (form_fields(body).get(CSRF_FIELD, []) if form else [])
            login = visitor.login
            if login is None or len(tokens) != 1 or not self._gate.logins.csrf_matches(login, tokens[0]):
                message = "the form is not from this login; load the page again and repeat what you did"
                raise _FormRefused(403, message, request, body) if _keeps(request) else AccessRefused(403, message)
        return _again(body, receive)

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the route."""
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            if not started:  # the answer of the server's own middleware would lack the headers
                await (await self._failed(scope, error))(scope, receive, send)
            raise

    async def _failed(self, scope: Scope, error: Exception) -> Response:
        handler: Callable[[Request, Exception], Awaitable[Response]] | None
        handlers = self._application.exception_handlers
        handler = handlers.get(500) or handlers.get(Exception)  # type: ignore[assignment] # Starlette's type allows more
        if handler is None:
            return PlainTextResponse("the console failed; its log says why", 500)
        return await handler(Request(scope), error)


class _FormRefused(AccessRefused):
    """A form that a person has filled in, whose login has ended or is another one by now."""

    def __init__(self, status: int, message: str, request: Request, body: bytes) -> None:
        super().__init__(status, message)
        self.kept = KeptForm.of(request.url.path, body)


def _is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM


def _keeps(request: Request) -> bool:
    """Whether this is a person's form that is worth sending again."""
    person = "text/html" in request.headers.get("accept", "") and request.method == "POST"
    return person and _is_form(request) and not request.url.path.startswith(("/api/", "/login", "/logout"))


async def _bounded(request: Request, receive: Receive, most: int) -> bytes:
    """The whole body. Raises AccessRefused for one of more than ``most`` bytes, unread where its header says so."""
    too_large = AccessRefused(413, f"the request is larger than {most // 1024} KiB")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise too_large
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > most:
            raise too_large
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that hands out a body which was read before, then what comes after it."""
    read = False

    async def from_start() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return from_start
