"""The console as its own process, and a browser that looks at it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright

from tests.support.daemon import Daemon
from tests.support.waiting import DEADLINE, patience, wait_until

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


class ConsoleProcess(Daemon):
    """``relay-cli console`` with exactly the environment it is given."""

    def __init__(self, storage_url: str, **env: str) -> None:
        super().__init__(storage_url, env, module="relay_cli", arguments=("console",))
        self.env["CONSOLE_PORT"] = f"127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """Where it serves."""
        return f"http://127.0.0.1:{self.port}"

    def wait_ready(self, deadline: float = DEADLINE) -> ConsoleProcess:
        """Return when it answers."""
        wait_until(lambda: self.running and self.get("/healthz")[0] == 200, deadline, "the console to answer")
        return self


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium; a test without it is skipped."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("needs Chromium: apt-get install --no-install-recommends chromium")
    expect.set_options(timeout=patience(DEADLINE) * 1000)  # its own deadline of 5 s knows no slow machine
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def watched(page: Page) -> list[str]:
    """What the page complains about from now on: errors of scripts, of the network, and of its security policy."""
    complaints: list[str] = []

    def on_failure(request: Request) -> None:
        # The poll of a live page ends when the page is left.
        left = request.failure == "net::ERR_ABORTED" and request.resource_type in {"xhr", "fetch"}
        if not left:
            complaints.append(f"{request.url}: {request.failure}")

    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in {"error", "warning"} else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", on_failure)
    return complaints
