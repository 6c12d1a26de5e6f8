"""Finds out who sends a request, and keeps logins: what the middleware and the pages of logins share.

A request proves itself by one of these, in this order: its Authorization header (a token), its login
cookie, or, where nothing is configured, by coming from this machine. A header that is wrong is refused and
never falls back to a cookie. API_TOKEN is a token for paths of the API alone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request

from relay.console.access.access_file import AccessLine
from relay.console.access.access_options import AccessOptions
from relay.console.access.access_role import AccessRole, Identity
from relay.console.access.credentials import ApiToken, KnownTokens
from relay.console.access.limit import PER_ADDRESS, Buckets, network_of
from relay.console.access.logins import COOKIE, Login, Logins, Way
from relay.console.access.origin import client_address
from relay.console.access.refusal import AccessRefused, too_many, unauthenticated

logger = logging.getLogger(__name__)

LOCAL: Final = Identity("local", AccessRole.ADMIN)
"""Who sends a request where nothing proves it: a process on this machine."""

API_PATHS: Final = "/api/"
"""Where API_TOKEN admits."""


class Proof(StrEnum):
    """What proves an identity to the console with each request."""

    TOKEN = "token"  # noqa: S105 - the kind, not a token
    API_TOKEN = "API_TOKEN"  # noqa: S105 - likewise
    COOKIE = "cookie"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Visitor:
    """The sender of a request; ``identity`` is None for one who has not logged in."""

    proof: Proof
    identity: Identity | None
    login: Login | None = None


class AccessGate:
    """Who may come in. One for an application."""

    def __init__(self, options: AccessOptions) -> None:
        """Reads the file of tokens. Raises ConfigError."""
        self.options = options
        self.logins = Logins(options.secret, options.lifetime)
        self.tokens = KnownTokens(options.tokens_file) if options.tokens_file is not None else None
        self._api_token = ApiToken(options.api_token) if options.api_token is not None else None
        self._limit = Buckets(PER_ADDRESS)
        self._logged = Buckets(PER_ADDRESS)

    def address(self, request: Request) -> str:
        """The client's address."""
        peer = request.client.host if request.client is not None else ""
        return client_address(peer, request.headers, self.options.trusted_proxies)

    def identify(self, request: Request) -> Visitor:
        """Who sends the request. Raises AccessRefused for a wrong Authorization header."""
        values = request.headers.getlist("authorization")
        if len(values) > 1:
            raise AccessRefused(400, "send one Authorization header")
        if values:
            return self._by_header(values[0], request)
        login = self._login_of(request.headers)
        if not self.options.authenticates:
            return Visitor(Proof.NONE, LOCAL, login)
        identity = self._identity_of(login)
        if identity is None and login is not None and login.identity is not None:
            login = None  # its line has left the file
        return Visitor(Proof.COOKIE, identity, login)

    def check_token(self, token: str, request: Request) -> AccessLine:
        """The line of this token, sent by the form. Raises AccessRefused for a wrong one, and for too many attempts."""
        address = self.address(request)
        network = network_of(address)
        wait = self._limit.wait(network)
        if wait > 0:
            raise too_many(wait)
        self._limit.take(network)
        line = self.tokens.match(token) if self.tokens is not None else None
        if line is None:
            _log_refusal(address)
            raise unauthenticated()
        self._limit.give_back(network)
        return line

    def _by_header(self, value: str, request: Request) -> Visitor:
        scheme, _, rest = value.partition(" ")
        if scheme.lower() != "bearer":
            raise unauthenticated()
        line = self.tokens.match(rest.strip()) if self.tokens is not None else None
        if line is not None:
            return Visitor(Proof.TOKEN, line.identity)
        if self._is_api_token(rest.strip(), request):
            return Visitor(Proof.API_TOKEN, ApiToken.identity)
        self._log_wrong_token(self.address(request))
        raise unauthenticated()

    def _is_api_token(self, sent: str, request: Request) -> bool:
        path = request.scope["path"]
        return self._api_token is not None and path.startswith(API_PATHS) and self._api_token.matches(sent)

    def _login_of(self, headers: Headers) -> Login | None:
        """The login of the cookie. Two cookies of the name are none: one of them may be planted."""
        pairs = [pair.strip().partition("=") for pair in ";".join(headers.getlist("cookie")).split(";")]
        values = [value for name, _, value in pairs if name == COOKIE]
        return self.logins.open(values[0]) if len(values) == 1 else None

    def _identity_of(self, login: Login | None) -> Identity | None:
        """Who the login is now: a line that changed its role or left the file counts at once."""
        if login is None or login.identity is None or login.way is None:
            return None
        if login.way is Way.PROVIDER:
            return login.identity if self.options.provider is not None else None
        line = self.tokens.line(login.identity.name, login.mark) if self.tokens is not None else None
        return line.identity if line is not None else None

    def _log_wrong_token(self, address: str) -> None:
        network = network_of(address)
        if self._logged.wait(network) == 0:  # a client with an old token repeats it without end
            self._logged.take(network)
            _log_refusal(address)


def _log_refusal(address: str) -> None:
    extra = {"action": "login_refused"}
    logger.warning("a login by token from %s was refused", address or "an unknown address", extra=extra)
