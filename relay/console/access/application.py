"""Puts the access rules around an application."""

from __future__ import annotations

import logging

from fastapi import FastAPI

from relay.console.access.access_options import access_options
from relay.console.access.gate import AccessGate
from relay.console.access.login_routes import LoginRoutes
from relay.console.access.middleware import AccessMiddleware
from relay.settings.settings import Settings

logger = logging.getLogger(__name__)


def install(app: FastAPI, settings: Settings) -> None:
    """Add the middleware and the routes of logins. Call it after every other middleware was added.

    Raises ConfigError for wrong CONSOLE_* settings and files, and for a public address that nothing guards.
    """
    options = access_options(settings)
    gate = AccessGate(options)
    routes = LoginRoutes(gate)
    routes.add_to(app)
    if options.provider is not None:
        # authlib and its client are large; only a console with a provider needs them.
        from relay.console.access.provider import LoginProvider  # noqa: PLC0415
        from relay.console.access.provider_routes import ProviderRoutes  # noqa: PLC0415

        ProviderRoutes(gate, LoginProvider(options.provider), routes).add_to(app)
    app.add_middleware(AccessMiddleware, gate=gate, application=app)
    if not options.authenticates:
        logger.warning(
            "no login is configured for the console: every user of this machine is admin. Set CONSOLE_TOKENS_FILE "
            "or CONSOLE_OIDC_ISSUER",
            extra={"action": "access_open"},
        )
    elif not options.admits_people:
        logger.warning(
            "API_TOKEN gives access to /api/ alone: the pages have no way to log in. For people, set "
            "CONSOLE_TOKENS_FILE or CONSOLE_OIDC_ISSUER",
            extra={"action": "access_api_only"},
        )
