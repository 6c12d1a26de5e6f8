"""The login page, and the form that survives a login: what was written is sent again with the next one.

A form whose login has ended travels in the page that refuses it, and no further: nothing of it is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import parse_qs, parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from relay.console.access.access_role import Identity
from relay.console.access.gate import AccessGate
from relay.console.access.logins import COOKIE, Login, set_cookie
from relay.console.access.refusal import AccessRefused
from relay.console.access.templates import render

CSRF_FIELD: Final = "csrf_token"
ENDED: Final = "You are logged out."
_KEPT: Final = "Your login has ended. Nothing was changed, and what you wrote is kept."
_MOST_FIELDS: Final = 1000
_UNSEEN: Final = frozenset({"idempotency_key", "version"})


@dataclass(frozen=True, slots=True)
class KeptForm:
    """A form that was refused for its login, without its CSRF token."""

    action: str
    fields: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, action: str, body: bytes) -> Self:
        """The form that a request sent to ``action``. Raises AccessRefused for one with too many fields."""
        fields = form_fields(body)
        return cls(action, tuple((name, value) for name in fields for value in fields[name] if name != CSRF_FIELD))

    @classmethod
    def parse(cls, action: str, text: str) -> Self:
        """The form of which ``encoded`` returned ``text``."""
        return cls(action, tuple(parse_qsl(text, keep_blank_values=True)))

    @property
    def encoded(self) -> str:
        """Its fields in one."""
        return urlencode(self.fields)

    @property
    def seen(self) -> list[tuple[str, str]]:
        """Its fields for people."""
        return [(name.replace("_", " "), value) for name, value in self.fields if value and name not in _UNSEEN]


def form_fields(body: bytes) -> dict[str, list[str]]:
    """The fields of a form. Raises AccessRefused for one with more fields than any form of the console."""
    try:
        return parse_qs(body.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise AccessRefused(400, f"the form has more than {_MOST_FIELDS} fields") from None


def login_page(
    gate: AccessGate,
    login: Login | None,
    target: str,
    *,
    message: str = "",
    status: int = 200,
    headers: dict[str, str] | None = None,
    kept: KeptForm | None = None,
) -> Response:
    """The login page, with a cookie for its CSRF token where the browser has none."""
    options = gate.options
    visit = gate.logins.new() if login is None else login
    content = render(
        "login.html",
        message=message,
        ended=message == ENDED,
        failed=status != 200 and message != _KEPT,
        next=target,
        kept=kept,
        csrf_token=gate.logins.csrf_token(visit),
        tokens=options.tokens_file is not None,
        people=options.admits_people or not options.authenticates,
        provider=options.provider.host if options.provider is not None else "",
    )
    response = HTMLResponse(content, status, headers)
    if login is None:
        set_login(gate, response, visit)
    return response


def resend_page(gate: AccessGate, login: Login, identity: Identity, kept: KeptForm, status: int = 200) -> Response:
    """The form of another login, to be sent again with this one."""
    token = gate.logins.csrf_token(login)
    return HTMLResponse(render("resend.html", kept=kept, csrf_token=token, name=identity.name), status)


def refused_form(gate: AccessGate, request: Request, refused: AccessRefused, kept: KeptForm) -> Response:
    """The page for a form whose login has ended or is another one by now."""
    visitor = gate.identify(request)
    if visitor.identity is not None and visitor.login is not None:
        return resend_page(gate, visitor.login, visitor.identity, kept, refused.status)
    return login_page(gate, visitor.login, kept.action, message=_KEPT, status=refused.status, kept=kept)


def set_login(gate: AccessGate, response: Response, login: Login) -> None:
    """Give the browser the cookie of a login."""
    set_cookie(response, COOKIE, gate.logins.seal(login), gate.options.lifetime)
