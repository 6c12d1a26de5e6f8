"""The routes of logins: ``/login``, ``/logout`` and those of the OpenID Connect provider."""

from __future__ import annotations

import logging
from typing import Annotated, Final

from fastapi import Depends, FastAPI, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from relay.console.access.credentials import mark_of
from relay.console.access.gate import AccessGate
from relay.console.access.logins import COOKIE, Login, Way
from relay.console.access.middleware import form_fields
from relay.console.access.refusal import AccessRefused, local_path
from relay.console.access.roles import AccessRole, Identity
from relay.console.access.rules import require
from relay.console.access.templates import render

logger = logging.getLogger(__name__)

_WRONG: Final = "The token is wrong."
_ENDED: Final = "You are logged out."

AnyIdentity = Annotated[Identity, Depends(require(AccessRole.READER))]


class LoginRoutes:
    """The page of logins, and the end of every login."""

    def __init__(self, gate: AccessGate) -> None:
        self._gate = gate

    def add_to(self, app: FastAPI) -> None:
        """Add the routes to an application."""
        app.add_api_route("/login", self.show, methods=["GET"], include_in_schema=False)
        app.add_api_route("/login", self.log_in, methods=["POST"], include_in_schema=False)
        app.add_api_route("/logout", self.log_out, methods=["POST"], include_in_schema=False)

    async def show(self, request: Request) -> Response:
        """The login page; who is logged in already goes on."""
        target = local_path(request.query_params.get("next", "/"))
        if request.state.identity is not None:
            return RedirectResponse(target, 303)
        return self.page(request, target, message=_ENDED if "ended" in request.query_params else "")

    async def log_in(self, request: Request) -> Response:
        """Check a token. The middleware has bounded and examined the form."""
        fields = {name: values[-1] for name, values in form_fields(await request.body()).items()}
        target = local_path(fields.get("next", "/"))
        try:
            line = self._gate.check_token(fields.get("token", ""), request)
        except AccessRefused as refused:
            message = str(refused) if refused.status != 401 else _WRONG
            retry = {name: value for name, value in refused.headers.items() if name == "Retry-After"}
            return self.page(request, target, message=message, status=refused.status, headers=retry)
        return self.admitted(request, target, line.identity, Way.TOKEN, mark_of(line))

    async def log_out(self, request: Request, identity: AnyIdentity) -> Response:
        """End the login of this browser, or with the field ``everywhere`` all of the same name."""
        fields = form_fields(await request.body())
        login: Login | None = request.state.login
        response = RedirectResponse("/login?ended", 303)
        if login is not None:
            everywhere = "everywhere" in fields
            (self._gate.logins.end_all_of if everywhere else self._gate.logins.end)(login)
            logger.info("%s logged out", identity.name, extra={"action": "logout", "everywhere": everywhere})
        # The attributes must be those of the cookie, or a browser refuses this one for its name.
        response.set_cookie(COOKIE, "", max_age=0, path="/", secure=True, httponly=True, samesite="lax")
        return response

    def admitted(self, request: Request, target: str, identity: Identity, way: Way, mark: str = "") -> Response:
        """Begin a login with a cookie of its own, and go on to ``target``."""
        before: Login | None = request.state.login
        if before is not None:
            self._gate.logins.end(before)
        logger.info(
            "%s logged in as %s by %s",
            identity.name,
            identity.role,
            way,
            extra={"action": "login", "address": self._gate.address(request)},
        )
        response = RedirectResponse(target, 303)
        self._set_cookie(response, self._gate.logins.new(identity, way, mark))
        return response

    def page(
        self,
        request: Request,
        target: str,
        *,
        message: str = "",
        status: int = 200,
        headers: dict[str, str] | None = None,
    ) -> Response:
        """The login page, with a cookie for its CSRF token where the browser has none."""
        logins, options = self._gate.logins, self._gate.options
        login: Login | None = request.state.login
        visit = logins.new() if login is None else login
        content = render(
            "login.html",
            message=message,
            ended=message == _ENDED,
            failed=status != 200,
            next=target,
            csrf_token=logins.csrf_token(visit),
            tokens=options.tokens_file is not None,
            people=options.admits_people or not options.authenticates,
            provider=options.provider.host if options.provider is not None else "",
        )
        response = HTMLResponse(content, status, headers)
        if login is None:
            self._set_cookie(response, visit)
        return response

    def _set_cookie(self, response: Response, login: Login) -> None:
        response.set_cookie(
            COOKIE,
            self._gate.logins.seal(login),
            max_age=int(self._gate.options.lifetime),
            path="/",
            secure=True,
            httponly=True,
            samesite="lax",
        )
