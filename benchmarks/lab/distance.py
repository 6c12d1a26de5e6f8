"""What a distant webhook receiver gets: ``python -m benchmarks.lab.distance``.

A relay drains events to a receiver that answers each request after ``--delay``, with eight connections at most and
with the default. Printed are the events a second from the first request to the last answer, and how many requests were
open at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import psycopg
import uvloop

from benchmarks.filling import fill
from benchmarks.measured import Machine
from benchmarks.process import RelayProcess
from benchmarks.servers import Servers

_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
_LENGTH = b"content-length:"


class _Receiver:
    def __init__(self, delay: float, count: int) -> None:
        self._delay = delay
        self._left = count
        self._open = self.most = 0
        self._began = 0.0
        self.seconds = 0.0
        self.done = threading.Event()
        self.port = 0
        self.ready = threading.Event()

    async def serve(self) -> None:
        """Serve until the last answer."""
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        await self._loop.run_in_executor(None, self.done.wait)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                self._began = self._began or time.monotonic()
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(_LENGTH))
                await reader.readexactly(int(length.removeprefix(_LENGTH)))
                self._open += 1
                self.most = max(self.most, self._open)
                self._loop.call_later(self._delay, self._answer, writer)

    def _answer(self, writer: asyncio.StreamWriter) -> None:
        writer.write(_ANSWER)
        self._open -= 1
        self._left -= 1
        if self._left == 0:
            self.seconds = time.monotonic() - self._began
            self.done.set()


@contextmanager
def _receiving(delay: float, count: int) -> Iterator[_Receiver]:
    receiver = _Receiver(delay, count)
    thread = threading.Thread(target=lambda: uvloop.run(receiver.serve()), daemon=True)
    thread.start()
    receiver.ready.wait()
    yield receiver
    receiver.done.set()
    thread.join()


def _pace(servers: Servers, options: argparse.Namespace, connections: str) -> dict[str, float]:
    """``connections`` is empty for the default."""
    url, delay = servers.fresh_table(), options.delay / 1000
    with psycopg.connect(url, autocommit=True) as connection:
        fill(connection, "bench", options.events)
    with _receiving(delay, options.events) as receiver:
        env = {
            "STORAGE_URL": url,
            "PUBLISHER_URL": f"http://127.0.0.1:{receiver.port}/",
            "HTTP_ALLOW_PRIVATE": "true",
            "HTTP_CONNECTIONS_PER_HOST": connections,
        }
        with RelayProcess(env):
            if not receiver.done.wait(options.events * 0.05):
                raise RuntimeError("the relay has not delivered all events")
    servers.drop_table(url)
    return {"events_per_second": options.events / receiver.seconds, "most_open": receiver.most}


def main() -> None:
    """Measure both, print them, and write JSON with --json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab.distance", description=__doc__)
    parser.add_argument("--events", type=int, default=10_000, help="of each run (default 10000)")
    parser.add_argument("--delay", type=float, default=50.0, help="milliseconds until an answer (default 50)")
    parser.add_argument("--json", type=Path, help="write every run to this file")
    options = parser.parse_args()
    runs = {}
    print("| connections | events/s | requests open at once |\n|---|---|---|")
    with Servers([]) as servers:
        for name, connections in (("8", "8"), ("default", "")):
            runs[name] = run = _pace(servers, options, connections)
            print(f"| {name} | {run['events_per_second']:,.0f} | {run['most_open']} |", flush=True)
    if options.json:
        machine = asdict(Machine.this(events=options.events, delay=options.delay))
        options.json.write_text(json.dumps({"machine": machine, "runs": runs}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
