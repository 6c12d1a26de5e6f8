"""What each page and each answer of the console takes: ``python -m benchmarks.console``.

The application is called without a network on a large table of 1,000 causes, beside a delivery log of as many attempts
over two years and an event store of a few hundred streams; what viewers share is forgotten before each request, so
that each figure is that of a first viewer. Printed are the milliseconds of server time, the first request, the median
and the slowest, what both servers take of a processor, and the median beside a new connection that sends ``SELECT 1``.

Then viewers poll the live pages as a browser does. Printed are their waits, and what both servers take of a processor
meanwhile: that is what they can take from a relay whose machine has no processor left.

It must be: 100 ms for each page and answer, 2 s for a search; 300 ms for the 99th percentile of 20 viewers, and 3% of a
processor. What misses is marked.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import psycopg
from fastapi import FastAPI

from benchmarks.console_rows import fill_for_console, waiting_id
from benchmarks.measured import Machine
from benchmarks.process import cpu_seconds
from benchmarks.servers import Servers
from relay.console.app import build_console
from relay.outbox.admin.causes import CauseName
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from relay.settings.settings import Settings
from tests.console.stocking import STREAM, TENANT, stock_store
from tests.deliverylog.loading import load_postgres

_STREAMS = 300
PAGES = {
    "overview": "/",
    "events": "/events",
    "events that wait": "/events?status=PENDING",
    "events of a type": "/events?event_type=t7",
    "an event": "/events/00000000-0000-0000-0000-000000000001",
    "an event that waits": "/events/{waiting}",
    "dead letters": "/dead",
    "replay a group": "/changes/new?action=replay&event_type=t7",
    "replay a cause": "/changes/new?action=replay&cause={cause}",
    "replay whatever was delivered": "/changes/new?action=replay&status=DELIVERED",
    "prune": "/prune",
    "types": "/types",
    "relays": "/fleet",
    "settings": "/settings",
    "changes": "/changes",
    "delivery log, newest": "/log",
    "delivery log, failures of a month": "/log?status=failed&since=2025-06-01T00:00&until=2025-07-01T00:00",
    "delivery log, failures by type": "/log/failures",
    "delivery log, an event": "/log/events/evt_000000777?tenant_id=tenant_27",
    "delivery log, an attempt": "/log/attempts/att_000000777?tenant_id=tenant_27",
    "event store": "/store",
    "streams of a tenant": f"/store/tenants/{TENANT}",
    "a stream": f"/store/tenants/{TENANT}/streams/{STREAM}",
    "API: exact counts": "/api/v1/stats",
    "API: overview": "/api/v1/overview",
    "API: causes": "/api/v1/causes",
    "API: dead letters": "/api/v1/dead-letters",
    "API: events": "/api/v1/events",
    "API: why an event waits": "/api/v1/events/{waiting}",
    "API: types": "/api/v1/types",
    "API: relays": "/api/v1/fleet",
    "API: series": "/api/v1/series?minutes=10080",
}
SEARCHES = {
    "search: a type that none has": "/events?event_type=none",
    "search: few events of a key": "/api/v1/events?partition_key=key-7&status=DEAD",
    "search: a rare cause": "/api/v1/events?cause={cause}",
    "search: a header that none has": "/api/v1/events?header=tenant%3Dnone",
    "search: a payload that none has": "/api/v1/events?payload=none",
}
_MUST, _MUST_SEARCH, _MUST_VIEWERS = 100.0, 2000.0, 300.0  # milliseconds
_MUST_SHARE = 0.03  # of a processor
_LIVE = ("/", "/types", "/fleet")
_POLL = 5.0  # seconds between two polls of a live page
_RARE = CauseName.of("HTTP_503: partner7.example.com answered 503").mark
_ADDRESS = "http://127.0.0.1:8090"


@dataclass(frozen=True)
class PageTime:
    """Milliseconds of one page."""

    page: str
    first: float
    median: float
    slowest: float
    processor: float
    """Of this process and of PostgreSQL's, a request."""
    ratio: float
    """The median, beside a new connection."""
    must: float = _MUST


@dataclass(frozen=True)
class Watching:
    """Viewers who watch live pages."""

    viewers: int
    requests: int
    median: float
    p99: float
    """Milliseconds."""
    share: float
    """Of a processor, of this process and of PostgreSQL's."""


class Processors:
    """What this process and a PostgreSQL have taken of a processor."""

    def __init__(self, postmaster: int) -> None:
        self._postmaster = postmaster

    def seconds(self) -> float:
        """User and system time so far."""
        return time.process_time() + cpu_seconds(self._postmaster)


def _connection_time(url: str) -> float:
    started = time.perf_counter()
    with psycopg.connect(url) as connection:
        connection.execute("SELECT 1")
    return (time.perf_counter() - started) * 1000


async def _times(app: FastAPI, path: str, requests: int) -> list[float]:
    milliseconds = []
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=_ADDRESS) as client:
        for _ in range(requests):
            app.state.console.readings.forget()
            started = time.perf_counter()
            response = await client.get(path)
            milliseconds.append((time.perf_counter() - started) * 1000)
            if response.status_code != 200:
                raise RuntimeError(f"{path} was answered with {response.status_code}: {response.text[:500]}")
    return milliseconds


async def _measure(app: FastAPI, requests: int, floor: float, used: Processors, waiting: str) -> list[PageTime]:
    pages = []
    paths = [(name, path, _MUST) for name, path in PAGES.items()]
    paths += [(name, path, _MUST_SEARCH) for name, path in SEARCHES.items()]
    for name, path, must in paths:
        before = used.seconds()
        times = await _times(app, path.format(waiting=waiting, cause=_RARE), requests)
        spent = (used.seconds() - before) / requests * 1000
        median = statistics.median(times)
        pages.append(PageTime(name, times[0], median, max(times), spent, median / floor, must))
    return pages


async def _watch(app: FastAPI, viewers: int, seconds: float, used: Processors) -> Watching:
    """Viewers who began at different moments poll a live page each, and show what has changed."""
    times: list[float] = []
    end = time.perf_counter() + seconds

    async def pause(length: float) -> None:
        await asyncio.sleep(max(0.0, min(length, end - time.perf_counter())))

    async def view(number: int) -> None:
        tag = ""
        await pause(number / viewers * _POLL)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=_ADDRESS) as client:
            while time.perf_counter() < end:
                started = time.perf_counter()
                headers = {"hx-request": "true", "if-none-match": tag}
                tag = (await client.get(_LIVE[number % len(_LIVE)], headers=headers)).headers["etag"]
                times.append((time.perf_counter() - started) * 1000)
                await pause(_POLL)

    before, started = used.seconds(), time.perf_counter()
    await asyncio.gather(*map(view, range(viewers)))
    share = (used.seconds() - before) / (time.perf_counter() - started)
    p99 = statistics.quantiles(times, n=100)[98]
    return Watching(viewers, len(times), statistics.median(times), p99, share)


def measure(url: str, options: argparse.Namespace, used: Processors) -> tuple[list[PageTime], Watching]:
    """The time of each page and answer on this outbox, and the waits of viewers."""
    app = build_console(Settings.from_env({"STORAGE_URL": url, "DELIVERY_LOG_URL": url}))
    gc.collect()
    gc.freeze()  # as the console does before it serves
    floor = statistics.median(_connection_time(url) for _ in range(options.requests))
    waiting = str(uuid.UUID(int=waiting_id(options.rows)))

    async def measured() -> tuple[list[PageTime], Watching]:
        async with app.router.lifespan_context(app):
            pages = await _measure(app, options.requests, floor, used, waiting)
            return pages, await _watch(app, options.viewers, options.seconds, used)

    return asyncio.run(measured())


def main() -> None:
    """Fill, measure, print, and write JSON with --json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table (default 1000000)")
    parser.add_argument("--requests", type=int, default=20, help="requests of each page (default 20)")
    parser.add_argument("--viewers", type=int, default=20, help="who watch live pages (default 20)")
    parser.add_argument("--seconds", type=float, default=60, help="for which they watch (default 60)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    with Servers([]) as servers:
        url = servers.fresh_table()
        for extension in ("console", "pause", "fleet", "series"):
            add_extension(url, TableName(), extension)
        with psycopg.connect(url, autocommit=True) as connection:
            fill_for_console(connection, options.rows)
        load_postgres(url, options.rows)
        stock_store(url, _STREAMS, role="pg_read_all_data")
        pages, watching = measure(url, options, Processors(servers.postgres.pid))
        servers.drop_table(url)
    print(f"{'milliseconds':36}{'first':>8}{'median':>8}{'slowest':>9}{'processor':>11}  beside a new connection")
    for each in pages:
        line = f"{each.first:8.0f}{each.median:8.0f}{each.slowest:9.0f}{each.processor:11.0f}{each.ratio:8.1f} x"
        print(f"{each.page:36}{line}{'' if each.median <= each.must else '  MISSES'}")
    misses = watching.p99 > _MUST_VIEWERS or watching.share > _MUST_SHARE
    waits = f"median {watching.median:.0f} ms, p99 {watching.p99:.0f} ms, {watching.share:.1%} of a processor"
    print(f"{watching.viewers} viewers, {watching.requests} polls: {waits}{'  MISSES' if misses else ''}")
    if options.json:
        machine = asdict(Machine.this(rows=options.rows, requests=options.requests))
        figures = {"machine": machine, "pages": [asdict(each) for each in pages], "viewers": asdict(watching)}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
