"""A console on the test's outbox, called without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import httpx
import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser

from relay.console.app import build_console
from relay.settings.settings import Settings
from tests.support.console import chromium
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import Database, create_database, drop_database

ADDRESS = "http://127.0.0.1:8090"


class ConsoleClient:
    """Calls a console's application, one request at a time."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app

    def request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """One request and its answer."""
        return asyncio.run(self._request(method, path, arguments))

    def get(self, path: str, **arguments: Any) -> httpx.Response:
        """A GET."""
        return self.request("GET", path, **arguments)

    def post(self, path: str, **arguments: Any) -> httpx.Response:
        """A POST."""
        return self.request("POST", path, **arguments)

    async def _request(self, method: str, path: str, arguments: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
            return await client.request(method, path, **arguments)


def client_of(url: str, **variables: str) -> ConsoleClient:
    """A client of a console on this database."""
    return ConsoleClient(build_console(Settings.from_env({"STORAGE_URL": url, **variables})))


EXTENSIONS: Final = ("console", "pause", "fleet", "series")
"""Those that the console needs."""


@pytest.fixture
def outbox_extensions(request: pytest.FixtureRequest) -> Sequence[str]:
    """``EXTENSIONS`` for a test of ``recorded``."""
    return EXTENSIONS if "recorded" in request.fixturenames else ()


@pytest.fixture
def recorded(outbox: Outbox) -> Outbox:
    """The outbox with the record of changes, and the rights that the console needs."""
    return outbox


@pytest.fixture
def console(recorded: Outbox) -> ConsoleClient:
    """A client of the console, as its administrator."""
    return client_of(recorded.url_of("console"))


@pytest.fixture(scope="module")
def unchanged(outbox_templates: Callable[[Sequence[str]], Database]) -> Iterator[ConsoleClient]:
    """A client of one console for all tests of a module whose requests are refused, and so change nothing."""
    template = outbox_templates(EXTENSIONS)
    database = create_database(template.admin_url, template=template.name)
    yield client_of(Outbox(database, database.url).url_of("console"))
    drop_database(database)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a module."""
    with chromium() as running:
        yield running
