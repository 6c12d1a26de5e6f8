"""The routes of logins at a provider: ``/oidc/login``, ``/oidc/callback`` and ``/oidc/logout``."""

from __future__ import annotations

import hmac
import logging
from typing import Final

from fastapi import FastAPI, Request
from starlette.responses import RedirectResponse, Response

from relay.console.access.gate import AccessGate
from relay.console.access.login_page import login_page
from relay.console.access.login_routes import LoginRoutes
from relay.console.access.logins import SealedNotes, Way, set_cookie
from relay.console.access.provider import Journey, LoginProvider, ProviderFailed, UserRefused
from relay.console.access.refusal import local_path

logger = logging.getLogger(__name__)

COOKIE: Final = "__Host-openoutbox-oidc"
JOURNEY_SECONDS: Final = 600.0
"""How long a user may take at the provider."""

_FAILED: Final = "The login provider failed. The console's log says why; try again later."
_REFUSED: Final = "You have no role in this console. Ask its administrator for one."
_DENIED: Final = "The login provider did not log you in."
_LATE: Final = "This login took too long, or was started in another browser. Try again."


class ProviderRoutes:
    """The pages of a login at the provider."""

    def __init__(self, gate: AccessGate, provider: LoginProvider, logins: LoginRoutes) -> None:
        self._gate = gate
        self._provider = provider
        self._logins = logins
        self._notes = SealedNotes(gate.options.secret, "oidc", JOURNEY_SECONDS)

    def add_to(self, app: FastAPI) -> None:
        """Add the routes to an application."""
        app.add_api_route("/oidc/login", self.begin, methods=["GET"], include_in_schema=False)
        app.add_api_route("/oidc/callback", self.finish, methods=["GET"], include_in_schema=False)
        app.add_api_route("/oidc/logout", self.end, methods=["GET"], include_in_schema=False)

    async def begin(self, request: Request) -> Response:
        """Send the browser to the provider."""
        target = local_path(request.query_params.get("next", "/"))
        try:
            url, journey = await self._provider.begin(self._redirect_uri(request), target)
        except ProviderFailed as failure:
            return self._failed(request, failure)
        response = RedirectResponse(url, 303)
        set_cookie(response, COOKIE, self._notes.seal(*journey), JOURNEY_SECONDS)
        return response

    async def finish(self, request: Request) -> Response:
        """Check what the provider sent the browser back with."""
        notes = self._notes.open(request.cookies.get(COOKIE, ""), len(Journey._fields))
        state, code = (request.query_params.get(name, "") for name in ("state", "code"))
        if notes is None or not hmac.compare_digest(Journey(*notes).state.encode(), state.encode()):
            return self._page(request, _LATE, 400)
        journey = Journey(*notes)
        if not code:
            return self._page(request, _DENIED, 403, journey.target)
        try:
            identity = await self._provider.finish(self._redirect_uri(request), code, journey)
        except ProviderFailed as failure:
            return self._failed(request, failure)
        except UserRefused as refusal:
            logger.warning("%s has no role", refusal, extra={"action": "login_refused", "login": str(refusal)})
            return self._page(request, _REFUSED, 403)
        response = self._logins.admitted(request, journey.target, identity, Way.PROVIDER)
        set_cookie(response, COOKIE, "", 0)
        return response

    async def end(self, request: Request) -> Response:
        """Lead a browser whose login has ended here to where the provider ends its own."""
        try:
            url = await self._provider.logout_url()
        except ProviderFailed as failure:
            return self._failed(request, failure)
        return RedirectResponse(url or "/login", 303)

    def _redirect_uri(self, request: Request) -> str:
        # Without CONSOLE_URL the console is on loopback, where the middleware admits its own names alone as Host.
        base = self._gate.options.url or f"http://{request.headers.get('host', '')}"
        return f"{base}/oidc/callback"

    def _failed(self, request: Request, failure: ProviderFailed) -> Response:
        logger.error("the login provider failed: %s", failure, extra={"action": "login_provider_failed"})
        return self._page(request, _FAILED, 502)

    def _page(self, request: Request, message: str, status: int, target: str = "/") -> Response:
        response = login_page(self._gate, request.state.login, target, message=message, status=status)
        set_cookie(response, COOKIE, "", 0)
        return response
