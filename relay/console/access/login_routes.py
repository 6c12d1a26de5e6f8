"""The routes of logins: ``/login``, ``/logout`` and those of the OpenID Connect provider."""

from __future__ import annotations

import logging
from typing import Annotated, Final

from fastapi import Depends, FastAPI, Request
from starlette.responses import RedirectResponse, Response

from relay.console.access.access_role import AccessRole, Identity
from relay.console.access.credentials import mark_of
from relay.console.access.gate import AccessGate
from relay.console.access.login_page import ENDED, KeptForm, form_fields, login_page, resend_page, set_login
from relay.console.access.logins import COOKIE, Login, Way, set_cookie
from relay.console.access.refusal import AccessRefused, local_path
from relay.console.access.route_roles import require

logger = logging.getLogger(__name__)

_WRONG: Final = "The token is wrong."

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
        message = ENDED if "ended" in request.query_params else ""
        return login_page(self._gate, request.state.login, target, message=message)

    async def log_in(self, request: Request) -> Response:
        """Check a token. The middleware has bounded and examined the form."""
        fields = {name: values[-1] for name, values in form_fields(await request.body()).items()}
        target = local_path(fields.get("next", "/"))
        kept = KeptForm.parse(target, fields["kept"]) if "kept" in fields else None
        try:
            line = self._gate.check_token(fields.get("token", ""), request)
        except AccessRefused as refused:
            message = str(refused) if refused.status != 401 else _WRONG
            retry = {name: value for name, value in refused.headers.items() if name == "Retry-After"}
            before = request.state.login
            return login_page(
                self._gate, before, target, message=message, status=refused.status, headers=retry, kept=kept
            )
        return self.admitted(request, target, line.identity, Way.TOKEN, mark_of(line), kept)

    async def log_out(self, request: Request, identity: AnyIdentity) -> Response:
        """End the login of this browser, or with the field ``everywhere`` all of the same name."""
        fields = form_fields(await request.body())
        login: Login | None = request.state.login
        response = RedirectResponse("/login?ended", 303)
        if login is not None:
            everywhere = "everywhere" in fields
            (self._gate.logins.end_all_of if everywhere else self._gate.logins.end)(login)
            logger.info("%s logged out", identity.name, extra={"action": "logout", "everywhere": everywhere})
        set_cookie(response, COOKIE, "", 0)
        return response

    def admitted(
        self,
        request: Request,
        target: str,
        identity: Identity,
        way: Way,
        mark: str = "",
        kept: KeptForm | None = None,
    ) -> Response:
        """Begin a login with a cookie of its own, and go on to ``target``, or with the form that was kept."""
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
        login = self._gate.logins.new(identity, way, mark)
        response = RedirectResponse(target, 303) if kept is None else resend_page(self._gate, login, identity, kept)
        set_login(self._gate, response, login)
        return response
