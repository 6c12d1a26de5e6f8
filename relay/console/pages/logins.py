"""Who the user is to the console, how they logged in and until when, and the end of their logins."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from relay.console.access.access_role import AccessRole
from relay.console.access.gate import Proof
from relay.console.access.logins import Login, Way
from relay.console.api.requests import Reader
from relay.console.context import ConsoleParts
from relay.console.pages.render import page

router = APIRouter(include_in_schema=False)

_MAY: Final = {
    AccessRole.READER: "look at everything but headers, payloads and the responses of brokers; an error may quote one",
    AccessRole.OPERATOR: "look at everything; retry, replay, bury, cancel, pause and resume",
    AccessRole.ADMIN: "everything",
}
_WITHOUT_LOGIN: Final = {
    Proof.NONE: "no login is configured: every user of this machine is admin",
    Proof.TOKEN: "no login: each request carries a token",
}


@router.get("/logins")
async def logins_page(request: Request, console: ConsoleParts, identity: Reader) -> HTMLResponse:
    """The login of this browser; a request that proves itself otherwise has none to end."""
    proof: Proof = request.state.proof
    login: Login | None = request.state.login if proof is Proof.COOKIE else None
    lifetime = console.settings.console_login_lifetime
    return page(
        request,
        "logins.html",
        identity,
        title="Login",
        may=_MAY[identity.role],
        way=_way(login, console.settings.console_oidc_issuer) if login is not None else _WITHOUT_LOGIN[proof],
        login=login,
        since=datetime.fromtimestamp(login.since, UTC) if login is not None else None,
        until=datetime.fromtimestamp(login.since + lifetime, UTC) if login is not None else None,
    )


def _way(login: Login, issuer: str | None) -> str:
    if login.way is Way.PROVIDER:
        return f"OpenID Connect at {urlsplit(issuer or '').hostname or issuer}"
    return "a token"
