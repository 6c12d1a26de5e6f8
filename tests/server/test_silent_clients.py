"""A relay with few descriptors among more silent connections than it has descriptors."""

from __future__ import annotations

import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.server.few_descriptors import DESCRIPTORS
from tests.support.daemon import Daemon
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import patience, wait_until

SILENT = 300


@contextmanager
def silent_clients(port: int, first_bytes: bytes) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        clients = []
        for _ in range(SILENT):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=patience(5)))
            with suppress(ConnectionError):  # a later client has taken its place already
                client.sendall(first_bytes)
            clients.append(client)
        yield clients


def seconds_to_answer(relay: Daemon, path: str) -> float:
    started = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{relay.port}{path}", timeout=patience(5)) as response:
        assert response.status == 200
    return time.monotonic() - started


def test_silent_and_slow_clients_neither_stop_the_probes_nor_the_relay(outbox: Outbox) -> None:
    """The database's connections are cut meanwhile: new ones need descriptors too."""
    assert SILENT > DESCRIPTORS
    env = {"PUBLISHER_TYPE": "null"}
    with Daemon(outbox.relay_url, env, module="tests.server.few_descriptors") as relay:
        relay.wait_ready()
        with silent_clients(relay.port, b""), silent_clients(relay.port, b"GET /healthz HT"):
            outbox.database.run("""
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()
            """)
            outbox.fill("good", 100)
            wait_until(lambda: relay.running and outbox.counts().get("DELIVERED") == 100, what="the delivery")
            for path in ("/healthz", "/readyz", "/metrics"):
                assert seconds_to_answer(relay, path) < patience(1), path
            assert len(list(Path(f"/proc/{relay.pid}/fd").iterdir())) < DESCRIPTORS / 2
        assert relay.stop() == 0
