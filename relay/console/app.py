"""The console's application: its parts, its routes and its errors. ``build_console`` is all that others call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any, Final

from anyio.to_thread import current_default_thread_limiter
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from relay.console import access
from relay.console.api import causes, changes, event_types, events, inbox, log, outbox, parked, prune, store
from relay.console.api import relays_and_pauses as relays_api
from relay.console.api import settings as settings_api
from relay.console.api.document import openapi_document
from relay.console.api.requests import READING
from relay.console.conditional import ConditionalGet
from relay.console.context import Console
from relay.console.database_places import MOST_PLACES, DatabasePlaces
from relay.console.pages import bulk, dead, overview
from relay.console.pages import changes as change_pages
from relay.console.pages import event_types as event_type_pages
from relay.console.pages import events as event_pages
from relay.console.pages import log as log_pages
from relay.console.pages import logins as login_pages
from relay.console.pages import prune as prune_pages
from relay.console.pages import relays_and_pauses as relay_pages
from relay.console.pages import settings as settings_pages
from relay.console.pages import store as store_pages
from relay.console.pages.render import page
from relay.console.problems import invalid_request, problem_of
from relay.console.readings import FreshAfterChanges
from relay.console.static import static_files
from relay.core.errors import OutboxError
from relay.postgres.operator_connections import keeping
from relay.settings.settings import Settings
from relay.version import __version__

API: Final = "/api/v1"
_RESOURCES = (events, causes, outbox, changes, prune, event_types, relays_api, settings_api, log, store, parked, inbox)
"""In the order of the document."""
_PAGES: Final = (
    overview,
    event_pages,
    dead,
    bulk,
    prune_pages,
    event_type_pages,
    relay_pages,
    settings_pages,
    log_pages,
    store_pages,
    change_pages,
    login_pages,
)


def build_console(settings: Settings) -> FastAPI:
    """The application. Connects to nothing yet. Raises ConfigError without STORAGE_URL, and as ``access.install``."""
    app = FastAPI(
        title="Open Outbox console",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=_lifespan,
    )
    app.state.console = Console.of(settings)
    for error in (OutboxError, RequestValidationError, HTTPException, Exception):
        app.exception_handler(error)(_answer_error)
    app.router.routes.extend(_routes())
    app.get(f"{API}/openapi.json", include_in_schema=False, dependencies=READING)(partial(openapi_document, app))
    app.mount("/static", static_files, name="static")
    app.get("/healthz", include_in_schema=False)(_health)
    app.add_middleware(ConditionalGet, prefix=API)
    app.add_middleware(DatabasePlaces, api=API)
    app.add_middleware(FreshAfterChanges, readings=app.state.console.readings)
    access.install(app, settings)
    return app


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """The API and the pages. Included once in a process: to examine them takes FastAPI 0.2 s, for each application."""
    whole = APIRouter()
    for resource in _RESOURCES:
        whole.include_router(resource.router, prefix=API, dependencies=[Depends(_known_parameters)])
    for part in _PAGES:
        whole.include_router(part.router, dependencies=[Depends(_known_parameters)])
    return tuple(whole.routes)


async def _health() -> dict[str, str]:
    """The process answers; it says nothing about the database."""
    return {"status": "ok"}


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    current_default_thread_limiter().total_tokens = MOST_PLACES
    try:
        with keeping(app.state.console.url):
            yield
    finally:
        await asyncio.to_thread(app.state.console.jobs.close)  # no thread of requests: they may all wait
        await app.state.console.log.close()
        await app.state.console.store.close()


async def _answer_error(request: Request, error: Exception) -> Response:
    """Answer an error: a problem for the API and for the script of a live page, a page for people."""
    problem = problem_of(error)
    headers = getattr(error, "headers", None)
    if f"{request.url.path}/".startswith("/api/") or "hx-request" in request.headers:
        return problem.response(headers)
    identity = getattr(request.state, "identity", None)
    response = page(request, "error.html", identity, problem.status, title=problem.title, problem=problem)
    response.headers.update(headers or {})
    return response


async def _known_parameters(request: Request) -> None:
    """Refuse unknown parameters: a misspelt filter would return what it should exclude. Raises RequestProblem."""
    route: Any = request.scope.get("route")
    if not isinstance(route, APIRoute):
        return
    known = sorted(_query_parameters(route.dependant))
    for name in request.query_params:
        if name not in known:
            message = f"unknown parameter {name!r}; choose from {', '.join(known) or 'none'}"
            raise invalid_request(message)


def _query_parameters(dependant: Dependant) -> Iterator[str]:
    """Their names, those of dependencies and of models too."""
    for parameter in dependant.query_params:
        kind = parameter.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from kind.model_fields
        else:
            yield parameter.alias
    for inner in dependant.dependencies:
        yield from _query_parameters(inner)
