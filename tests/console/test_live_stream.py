"""The streams of live pages over HTTP: what a browser receives, and how a stream ends."""

from __future__ import annotations

import http.client
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.console.access.making import token, token_line, tokens_file
from tests.outbox.admin.filling import fill_aged
from tests.support.console import ConsoleProcess
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import patience

OPERATOR = {"Authorization": f"Bearer {token('operator-token')}"}
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return tokens_file(tmp_path)


@pytest.fixture
def console(recorded: Outbox, tokens: Path) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(recorded.url_of("console"), CONSOLE_TOKENS_FILE=str(tokens)) as process:
        yield process.wait_ready()


@contextmanager
def request(
    console: ConsoleProcess, path: str, headers: dict[str, str], body: str | None = None
) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", console.port, timeout=patience(30))
    try:
        connection.request("GET" if body is None else "POST", path, body, headers)
        yield connection.getresponse()
    finally:
        connection.close()


def read_until(stream: http.client.HTTPResponse, line: bytes) -> None:
    """Read lines up to this one. A stream that sends nothing ends in the connection's timeout."""
    while (received := stream.readline()) != line:
        assert received, "the stream has ended"


def logged_in(console: ConsoleProcess) -> dict[str, str]:
    """The headers of a browser that has logged in by a token, with the CSRF token of its login."""
    with request(console, "/login", {}) as page:
        cookie = str(page.headers["set-cookie"]).partition(";")[0]
        [csrf, *_] = re.findall(r'name="csrf_token" value="([^"]+)"', page.read().decode())
    fields = urlencode({"csrf_token": unescape(csrf), "token": token("reader-token")})
    with request(console, "/login", {"Cookie": cookie, "Content-Type": FORM}, fields) as done:
        assert done.status == 303
        cookie = str(done.headers["set-cookie"]).partition(";")[0]
    with request(console, "/changes", {"Cookie": cookie}) as page:
        [csrf, *_] = re.findall(r'name="csrf-token" content="([^"]+)"', page.read().decode())
    return {"Cookie": cookie, "X-CSRF-Token": unescape(csrf)}


def test_a_change_is_told_and_many_streams_hold_no_thread(console: ConsoleProcess, recorded: Outbox) -> None:
    with ExitStack() as stack:
        streams = [stack.enter_context(request(console, "/live?page=overview", OPERATOR)) for _ in range(30)]
        for stream in streams:
            assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
            assert stream.headers["cache-control"] == "no-store"
            read_until(stream, b"event: refresh\n")
        fill_aged(recorded, "DEAD", 7)
        for stream in streams:
            read_until(stream, b"event: refresh\n")
        with request(console, "/", OPERATOR) as page:
            assert "7 events are dead" in page.read().decode()


def test_a_stream_ends_when_its_token_loses_its_role(console: ConsoleProcess, tokens: Path) -> None:
    with request(console, "/live?page=types", OPERATOR) as stream:
        read_until(stream, b"event: refresh\n")
        tokens.write_text(token_line("reader", "operator-token"))
        assert stream.read().endswith(b"\n\n")
    with request(console, "/live?page=types", {}) as refused:
        assert refused.status == 401


def test_a_stream_ends_with_its_login(console: ConsoleProcess) -> None:
    browser = logged_in(console)
    with request(console, "/live?page=relays", browser) as stream:
        read_until(stream, b"event: refresh\n")
        with request(console, "/logout", {**browser, "Content-Type": FORM}, "") as done:
            assert done.status == 303
        assert stream.read().endswith(b"\n\n")


def test_the_console_stops_at_once_with_streams_open(console: ConsoleProcess) -> None:
    with request(console, "/live?page=overview", OPERATOR) as stream:
        read_until(stream, b"event: refresh\n")
        console.process.send_signal(signal.SIGTERM)
        stream.read()
        assert console.process.wait(patience(30)) in (0, -signal.SIGTERM)
    assert "timeout graceful shutdown exceeded" not in console.log()
