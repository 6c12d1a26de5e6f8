"""Who may read what, and how many at once: the bearer tokens of the log's HTTP API and the number of its requests."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from relay.deliverylog.errors import InvalidQuery

MOST_REQUESTS: Final = 8
"""Requests that are answered at once; further ones are refused with 429."""

Tokens = Mapping[str, str | None]
"""Token -> the tenant that it is tied to; None: an operator's token, for all tenants."""
Next = Callable[[Request], Awaitable[Response]]


class ForeignTenant(Exception):
    """The token is tied to another tenant than the request names."""


def problem(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An error as this API answers it."""
    return JSONResponse({"error": kind, "message": message}, status, headers=dict(headers or {}))


def guard(tokens: Tokens) -> Callable[[Request, Next], Awaitable[Response]]:
    """A middleware that admits requests with a token, a few at once, and leaves the token's tenant in their state."""
    known = [(token.encode(), tenant) for token, tenant in tokens.items()]
    running = 0

    async def admit(request: Request, call_next: Next) -> Response:
        nonlocal running
        sent = _token(request)
        # Every token is compared, so that the time says nothing about which one is like the one sent.
        matching = [tenant for token, tenant in known if hmac.compare_digest(token, sent)]
        if not matching:
            message = "this API needs a bearer token: API_TOKEN, or one of API_TENANT_TOKENS"
            return problem(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})
        if running >= MOST_REQUESTS:
            message = f"{MOST_REQUESTS} requests are being answered; try again in a second"
            return problem(429, "busy", message, {"Retry-After": "1"})
        request.state.tenant = matching[0]
        running += 1
        try:
            return await call_next(request)
        finally:
            running -= 1

    return admit


def _token(request: Request) -> bytes:
    """The request's bearer token; the scheme's name is in any case. Empty without one."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip().encode("latin-1", "replace") if scheme.lower() == "bearer" else b""


def own_tenants(request: Request, requested: list[str] | None) -> list[str] | None:
    """The tenants that a request reads: those requested, or the token's own. Raises ForeignTenant for another one."""
    tenant: str | None = request.state.tenant
    if tenant is None:
        return requested
    if requested and set(requested) != {tenant}:
        raise ForeignTenant("this token is for one tenant, and the request names another; leave tenant_id out")
    return [tenant]


def own_tenant(request: Request, requested: str | None) -> str | None:
    """As ``own_tenants``, for one row."""
    tenants = own_tenants(request, None if requested is None else [requested])
    return tenants[0] if tenants else None


def own_filters(request: Request, filters: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """As ``own_tenants``, for the filters of metrics."""
    tenants = own_tenants(request, filters.get("tenant_id"))
    return filters if tenants is None else {**filters, "tenant_id": tenants}


def known_parameters(request: Request) -> None:
    """Refuse unknown parameters: a misspelt filter would return what it should exclude. Raises InvalidQuery."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute):
        return
    known = sorted(_parameters(route.dependant))
    for name in request.query_params:
        if name not in known:
            raise InvalidQuery(f"unknown parameter {name!r}; choose from {', '.join(known)}")


def _parameters(dependant: Dependant) -> Iterator[str]:
    yield from (parameter.alias for parameter in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _parameters(inner)
