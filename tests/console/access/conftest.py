"""One application with tokens and users for the tests that change nothing of it, and a browser for each test."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from tests.console.access.making import tokens_file
from tests.console.access.sample import Browser, sample_app, served, settings


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("access")
    return {
        "CONSOLE_TOKENS_FILE": str(tokens_file(folder)),
        "CONSOLE_SECRET": "s" * 32,
    }


@pytest.fixture(scope="module")
def app(files: dict[str, str]) -> FastAPI:
    return sample_app(settings(**files))


@pytest.fixture(scope="module")
def url(app: FastAPI) -> Iterator[str]:
    with served(app) as address:
        yield address


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    # A connection for each request: the server may close an idle one at the moment that it is used again.
    with httpx.Client(timeout=30, limits=httpx.Limits(max_keepalive_connections=0)) as opened:
        yield opened


@pytest.fixture
def browser(url: str, client: httpx.Client) -> Browser:
    return Browser(url, client)
