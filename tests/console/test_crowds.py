"""What many clients and a hung database cost those who work beside them: nothing that they would notice."""

from __future__ import annotations

import gzip
import resource
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from relay.console.database_places import MOST_PLACES
from relay.console.static import FILES, STATIC
from tests.console.access.making import token, tokens_file
from tests.console.conftest import ConsoleClient, client_of
from tests.support.console import ConsoleProcess
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.servers.tcp_proxy import Mode, TcpProxy
from tests.support.waiting import patience, wait_until

HALF_OPEN = 2000
USUAL_DESCRIPTORS = 1024


@contextmanager
def flood(port: int) -> Iterator[list[int]]:
    """``HALF_OPEN`` clients that never end their request, each again as soon as it is dropped; counts connections."""
    ending, connected = threading.Event(), [0]

    def attack(count: int) -> None:
        clients: list[socket.socket] = []
        while not ending.is_set():
            with suppress(OSError):
                client = socket.create_connection(("127.0.0.1", port), timeout=patience(5))
                clients.append(client)
                connected[0] += 1
                client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-")
            if len(clients) >= count:
                clients.pop(0).close()
                ending.wait(0.01)
        for client in clients:
            client.close()

    threads = [threading.Thread(target=attack, args=(HALF_OPEN // 4,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield connected
    finally:
        ending.set()
        for thread in threads:
            thread.join()


def test_a_half_open_flood_leaves_an_operator_at_work(recorded: Outbox) -> None:
    [id_] = recorded.insert([Row("t", b"{}")])
    with ConsoleProcess(recorded.url_of("console")) as console:
        console.wait_ready()
        resource.prlimit(console.pid, resource.RLIMIT_NOFILE, (USUAL_DESCRIPTORS, USUAL_DESCRIPTORS))
        with flood(console.port) as connected:
            wait_until(lambda: connected[0] >= HALF_OPEN, what="the flood")
            for path in ("/", "/events", f"/events/{id_}", "/healthz"):
                started = time.monotonic()
                answer = httpx.get(console.address + path, timeout=patience(10))
                assert (answer.status_code, time.monotonic() - started < patience(3)) == (200, True), path
            assert len(list(Path(f"/proc/{console.pid}/fd").iterdir())) < USUAL_DESCRIPTORS / 2
        assert console.stop() == -15  # as before: the signal's own


def test_a_hung_database_costs_the_requests_that_need_it(recorded: Outbox, tmp_path: Path) -> None:
    url = urlsplit(recorded.url_of("console"))
    with TcpProxy(url.port or 5432) as proxy:
        proxied = url._replace(netloc=f"{url.netloc.rpartition('@')[0]}@127.0.0.1:{proxy.port}").geturl()
        with ConsoleProcess(proxied, CONSOLE_TOKENS_FILE=str(tokens_file(tmp_path))) as console:
            console.wait_ready()
            bearer = {"Authorization": f"Bearer {token('reader-token')}"}
            client = httpx.Client(base_url=console.address, headers=bearer, timeout=patience(60))

            def seconds(path: str) -> tuple[int, float]:
                started = time.monotonic()
                answer = client.get(path)
                return answer.status_code, time.monotonic() - started

            assert seconds("/events")[0] == 200
            proxy.set(Mode.SILENCE)
            with ThreadPoolExecutor(2 * MOST_PLACES) as pool:
                waiting = [pool.submit(seconds, "/events") for _ in range(2 * MOST_PLACES)]
                while sum(each.done() for each in waiting) < MOST_PLACES:  # those without a place
                    for path in (f"{STATIC}/console.css", "/login", "/logins", "/healthz"):
                        status, took = seconds(path)
                        assert (status in {200, 303}, took < patience(1)) == (True, True), path
                refused = [each.result() for each in waiting if each.done()]
                assert {status for status, _ in refused} == {503}
                assert max(took for _, took in refused) < patience(5)
                proxy.set(Mode.FLOW)
            wait_until(lambda: seconds("/events")[0] == 200, what="the database")
            client.close()


def test_a_static_file_is_compressed_and_kept_under_its_version(recorded: Outbox) -> None:
    console = client_of(recorded.url_of("console"))
    page = console.get("/").text
    assert f'href="{STATIC}/console.css"' in page
    style = f"{STATIC}/console.css"
    plain = console.get(style, headers={"Accept-Encoding": "identity"})
    assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert plain.content == FILES["console.css"].content
    packed = console.get(style, headers={"Accept-Encoding": "br, gzip;q=0.8"})
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content) / 2
    assert packed.content == plain.content == gzip.decompress(FILES["console.css"].compressed or b"")


def test_a_page_of_another_version_finds_its_files_without_keeping_them(console: ConsoleClient) -> None:
    other = console.get("/static/0123456789ab/console.js")
    assert (other.status_code, other.headers["cache-control"]) == (200, "no-cache")
    assert console.get("/static/console.js").status_code == 404
    assert console.get(f"{STATIC}/../console.py").status_code == 404
    assert console.post(f"{STATIC}/console.js").status_code == 405
