"""``relay --healthcheck`` against everything that may listen on SERVER_PORT."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from relay.__main__ import main
from relay.localservers.process import free_port
from relay.settings.listening import server_address
from relay.settings.settings import Settings
from tests.support.waiting import patience


@contextmanager
def answering(*parts: bytes) -> Iterator[int]:
    """A server for one connection, which reads a request and sends the parts; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(patience(10))

        def serve() -> None:
            client, _ = listening.accept()
            with client:
                client.recv(1024)
                for part in parts:
                    client.sendall(part)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(patience(10))


def healthcheck(monkeypatch: pytest.MonkeyPatch, port: int) -> int:
    monkeypatch.setenv("SERVER_PORT", f"127.0.0.1:{port}")
    monkeypatch.setattr(sys, "argv", ["relay", "--healthcheck"])
    return main()


@pytest.mark.parametrize(
    ("parts", "code", "message"),
    [
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"], 0, ""),
        ([b"HTTP/1.", b"1 200 OK\r\n"], 0, ""),
        ([b"HTTP/1.1 503 Service Unavailable\r\n\r\n"], 1, "answered 503; the relay's log says why"),
        ([b"+PONG\r\n"], 1, "is not a relay: its answer is not HTTP"),
        ([], 1, "does not answer: it closed the connection"),
    ],
)
def test_only_an_answer_of_200_is_healthy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], parts: list[bytes], code: int, message: str
) -> None:
    with answering(*parts) as port:
        assert healthcheck(monkeypatch, port) == code

    assert message in capsys.readouterr().err


def test_a_port_that_does_not_answer_is_unhealthy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()

    assert healthcheck(monkeypatch, port) == 1

    assert f"127.0.0.1 port {port} (SERVER_PORT) does not answer: Connection refused" in capsys.readouterr().err


def test_a_link_of_kubernetes_is_not_the_port(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SERVER_PORT", "tcp://10.96.0.17:80")
    assert server_address() == Settings.from_env({"STORAGE_URL": "postgres://h/d"}).server_port
