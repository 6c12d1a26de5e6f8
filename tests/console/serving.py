"""A console in the tests' own process: one of its own takes a second or more to start."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from relay.console.app import build_console
from relay.localservers.process import free_port
from relay.settings.settings import Settings
from tests.support.waiting import patience, wait_until


@contextmanager
def serving(url: str, **variables: str) -> Iterator[str]:
    """The address of a console in a thread of its own."""
    port = free_port()
    app = build_console(Settings.from_env({"STORAGE_URL": url, **variables}))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, what="the console to listen")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(patience())
