"""What each page of the console takes: ``python -m benchmarks.console``.

The application is called without a network on a large table, beside a delivery log of as many attempts over two years
and an event store of a few hundred streams; what viewers share is forgotten before each request, so
that each figure is that of a first viewer. Printed are the milliseconds of server time of each page, the first request,
the median and the slowest, and the median beside a new connection that sends one ``SELECT 1``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import psycopg
from fastapi import FastAPI

from benchmarks.console_rows import fill_for_console
from benchmarks.measured import Machine
from benchmarks.servers import Servers
from relay.console.app import build_console
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
    "events of a type that none has": "/events?event_type=none",
    "an event": "/events/00000000-0000-0000-0000-000000000001",
    "dead letters": "/dead",
    "replay a group": "/changes/new?action=replay&event_type=t7",
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
}
_ADDRESS = "http://127.0.0.1:8090"


@dataclass(frozen=True)
class PageTime:
    """Milliseconds of one page."""

    page: str
    first: float
    median: float
    slowest: float
    ratio: float
    """The median, beside a new connection."""


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


async def _measure(app: FastAPI, requests: int, floor: float) -> list[PageTime]:
    pages = []
    async with app.router.lifespan_context(app):
        for name, path in PAGES.items():
            times = await _times(app, path, requests)
            median = statistics.median(times)
            pages.append(PageTime(name, times[0], median, max(times), median / floor))
    return pages


def measure(url: str, requests: int) -> list[PageTime]:
    """The time of each page on this outbox."""
    app = build_console(Settings.from_env({"STORAGE_URL": url, "DELIVERY_LOG_URL": url}))
    floor = statistics.median(_connection_time(url) for _ in range(requests))
    return asyncio.run(_measure(app, requests, floor))


def main() -> None:
    """Fill, measure, print, and write JSON with --json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table (default 1000000)")
    parser.add_argument("--requests", type=int, default=20, help="requests of each page (default 20)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    with Servers([]) as servers:
        url = servers.fresh_table()
        for extension in ("console", "pause", "fleet"):
            add_extension(url, TableName(), extension)
        with psycopg.connect(url, autocommit=True) as connection:
            fill_for_console(connection, options.rows)
        load_postgres(url, options.rows)
        stock_store(url, _STREAMS, role="pg_read_all_data")
        pages = measure(url, options.requests)
        servers.drop_table(url)
    print(f"{'milliseconds':32}{'first':>8}{'median':>8}{'slowest':>9}  beside a new connection")
    for each in pages:
        print(f"{each.page:32}{each.first:8.0f}{each.median:8.0f}{each.slowest:9.0f}{each.ratio:8.1f} x")
    if options.json:
        machine = asdict(Machine.this(rows=options.rows, requests=options.requests))
        figures = {"machine": machine, "pages": [asdict(each) for each in pages]}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
