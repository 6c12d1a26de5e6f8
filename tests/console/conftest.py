"""A console on the test's outbox, called without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser

from relay.console.app import build_console
from relay.settings.settings import Settings
from tests.support.console import chromium
from tests.support.fixtures.outbox import Outbox

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


@pytest.fixture
def outbox_extensions(request: pytest.FixtureRequest) -> Sequence[str]:
    """Those that the console needs, for a test of ``recorded``."""
    return ("console", "pause", "fleet", "series") if "recorded" in request.fixturenames else ()


@pytest.fixture
def recorded(outbox: Outbox) -> Outbox:
    """The outbox with the record of changes, and the rights that the console needs."""
    return outbox


@pytest.fixture
def console(recorded: Outbox) -> ConsoleClient:
    """A client of the console, as its administrator."""
    return client_of(recorded.url_of("console"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a module."""
    with chromium() as running:
        yield running
