"""A login that is refused, in whichever words, asks the command for another password before the time that it named."""

from __future__ import annotations

import shlex
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from relay.core import origins
from relay.postgres.connect import connect
from relay.postgres.url import connection_parameters

COUNTING = """
import pathlib, sys
file = pathlib.Path(sys.argv[1])
file.write_text(file.read_text() + "x")
print(file.read_text() + "\\n2099-01-01T00:00:00Z")
"""


@contextmanager
def answering(words: str) -> Iterator[int]:
    """A server that ends each start of a connection with these words; its port."""
    fields = b"".join(kind + text.encode() + b"\0" for kind, text in ((b"S", "FATAL"), (b"C", "28000"), (b"M", words)))

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(4096)
            self.request.sendall(b"E" + (len(fields) + 5).to_bytes(4) + fields + b"\0")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ("The access token has expired. Acquire a new token and retry.", 2),  # Azure
        ("auth failed", 2),
        ("Passwort-Authentifizierung für Benutzer »relay« fehlgeschlagen", 2),
        ("PAM authentication failed for user", 2),  # RDS
        ("the database system is starting up", 1),
        ("sorry, too many clients already", 1),
    ],
)
def test_it_is_run_again_after_a_refusal_alone(words: str, runs: int, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    ran.write_text("")
    command = origins.PasswordCommand(
        "STORAGE_PASSWORD_COMMAND", shlex.join([sys.executable, "-c", COUNTING, str(ran)])
    )
    with answering(words) as port:
        url = f"postgres://relay@127.0.0.1:{port}/app?sslmode=disable&gssencmode=disable"
        origins.remember(url, origins.SecretOrigin("STORAGE_URL", None, command))
        parameters = connection_parameters(url, "test")
        for _ in range(2):
            with pytest.raises(psycopg.OperationalError):
                connect(parameters)
    assert ran.read_text() == "x" * runs
