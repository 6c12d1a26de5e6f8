"""Which route asks for which role. A route that asks for none and is not open stops the whole console."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

import fastapi.routing
from fastapi import FastAPI, HTTPException, Request
from starlette.routing import BaseRoute, Mount

from relay.console.access.access_role import AccessRole, Identity
from relay.console.access.answer_headers import STATIC

OPEN_PATHS: Final = frozenset({"/login", "/oidc/login", "/oidc/callback", "/oidc/logout", "/healthz"})
"""What is answered without a login."""

_ROLES: dict[Callable[..., Any], AccessRole] = {}


class RouteRule(NamedTuple):
    """A route, and the role that it asks for; None for an open one."""

    methods: frozenset[str]
    path: str
    role: AccessRole | None


@cache
def require(role: AccessRole) -> Callable[[Request], Awaitable[Identity]]:
    """A dependency that returns the identity of a request with at least this role, and answers 403 to others."""

    async def identity(request: Request) -> Identity:
        visitor: Identity | None = request.state.identity
        if visitor is None:
            raise HTTPException(401, "log in first")
        if visitor.role < role:
            raise HTTPException(403, f"this needs the role {role}; {visitor.name} has the role {visitor.role}")
        if hasattr(request.state, "take_place"):  # not before: no place is waited for to be refused
            await request.state.take_place()
        return visitor

    _ROLES[identity] = role
    return identity


def is_open(path: str) -> bool:
    """Whether the path is answered without a login."""
    return path in OPEN_PATHS or path.startswith(STATIC)


def route_rules(app: FastAPI) -> list[RouteRule]:
    """The rule of every route. Raises RuntimeError, which names them, for routes without one."""
    rules, missing = [], []
    for route in _routes(app.routes):
        path = str(route.path)
        role = _role_of(getattr(route, "dependant", None))
        rules.append(RouteRule(frozenset(getattr(route, "methods", None) or ()), path, role))
        folder = f"{path}/" if isinstance(getattr(route, "original_route", route), Mount) else path
        if role is None and not is_open(folder):
            missing.append(path)
    if missing:
        raise RuntimeError(f"these routes ask for no role; give each a Depends(require(...)): {', '.join(missing)}")
    return rules


def _routes(routes: Iterable[BaseRoute]) -> Iterator[Any]:
    """The routes, those of included routers too, which newer versions of FastAPI keep apart."""
    contexts = getattr(fastapi.routing, "iter_route_contexts", None)
    yield from contexts(routes) if contexts is not None else routes


def _role_of(dependant: Any) -> AccessRole | None:  # noqa: ANN401 - a class of FastAPI that differs between versions
    """The highest role in the tree of dependencies."""
    if dependant is None:
        return None
    roles = [_ROLES.get(dependant.call), *(_role_of(inner) for inner in dependant.dependencies)]
    return max((role for role in roles if role is not None), default=None)
