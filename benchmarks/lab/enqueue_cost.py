"""What one ``enqueue`` costs an application beside a plain prepared INSERT: ``python -m benchmarks.lab.enqueue_cost``.

Both insert the same row, in turn, on one connection in one transaction that is rolled back. Microseconds of this
process's CPU time for an event, medians over the rounds. ``ready`` is the INSERT alone, its parameters made before;
``plain`` makes them, too, as an application without this client does: an id, and the payload's JSON. ``given`` is
``enqueue`` of an event that was made before, ``enqueue`` makes it, too: the one is to be compared with ``ready``, the
other with ``plain``. ``select`` is the driver alone. Each round has all of them, so that ratios within a round are what
counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg
import psycopg
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.servers import Servers
from openoutbox import NewEvent, enqueue, enqueue_async

_COLUMNS: Final = ("event_id", "event_type", "partition_key", "payload", "headers")
_INSERT: Final = f"INSERT INTO openoutbox_events ({', '.join(_COLUMNS)}) VALUES "
_PAYLOAD: Final = {
    "order": 7,
    "customer": "ada",
    "amount": "9.90",
    "lines": [{"sku": "A-1", "count": 2}],
    "note": "gift",
}
_WAYS: Final = ("select", "ready", "given", "plain", "enqueue")


def _row() -> tuple[Any, ...]:
    return (uuid.uuid4(), "order.placed", "ada", json.dumps(_PAYLOAD).encode(), "{}")


def _event() -> NewEvent:
    return NewEvent("order.placed", _PAYLOAD, partition_key="ada")


@asynccontextmanager
async def _psycopg(url: str) -> AsyncIterator[dict[str, Callable[..., Any]]]:
    sql = (_INSERT + "(%s, %s, %s, %s, %s)").encode()
    with psycopg.connect(url) as connection:
        yield {
            "select": lambda: connection.execute("SELECT 1", prepare=True),
            "insert": lambda row: connection.execute(sql, row, prepare=True),
            "enqueue": lambda event: enqueue(connection, event),
        }
        connection.rollback()


@asynccontextmanager
async def _sqlalchemy(url: str) -> AsyncIterator[dict[str, Callable[..., Any]]]:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    insert, select = text(_INSERT + "(:event_id, :event_type, :partition_key, :payload, :headers)"), text("SELECT 1")
    with engine.connect() as connection:
        yield {
            "select": lambda: connection.execute(select),
            "insert": lambda row: connection.execute(insert, dict(zip(_COLUMNS, row, strict=True))),
            "enqueue": lambda event: enqueue(connection, event),
        }
        connection.rollback()
    engine.dispose()


@asynccontextmanager
async def _asyncpg(url: str) -> AsyncIterator[dict[str, Callable[..., Any]]]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    yield {
        "select": lambda: connection.execute("SELECT $1::INT", 1),
        "insert": lambda row: connection.execute(_INSERT + "($1, $2, $3, $4, $5)", *row),
        "enqueue": lambda event: enqueue_async(connection, event),
    }
    await transaction.rollback()
    await connection.close()


@asynccontextmanager
async def _sqlalchemy_asyncpg(url: str) -> AsyncIterator[dict[str, Callable[..., Any]]]:
    engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
    insert, select = text(_INSERT + "(:event_id, :event_type, :partition_key, :payload, :headers)"), text("SELECT 1")
    async with engine.connect() as connection:
        yield {
            "select": lambda: connection.execute(select),
            "insert": lambda row: connection.execute(insert, dict(zip(_COLUMNS, row, strict=True))),
            "enqueue": lambda event: enqueue_async(connection, event),
        }
        await connection.rollback()
    await engine.dispose()


_DRIVERS: Final = {
    "psycopg": _psycopg,
    "asyncpg": _asyncpg,
    "sqlalchemy": _sqlalchemy,
    "sqlalchemy-asyncpg": _sqlalchemy_asyncpg,
}


async def _round(calls: dict[str, Callable[..., Any]], events: int, *, waits: bool) -> dict[str, float]:
    """Microseconds of CPU an event by each way, in slices that take turns."""
    spent = dict.fromkeys(_WAYS, 0.0)
    for _ in range(events // 20):
        rows, given = [_row() for _ in range(20)], [_event() for _ in range(20)]
        ways: dict[str, list[Callable[[], Any]]] = {
            "select": [calls["select"]] * 20,
            "ready": [lambda row=row: calls["insert"](row) for row in rows],  # type: ignore[misc]
            "given": [lambda event=event: calls["enqueue"](event) for event in given],  # type: ignore[misc]
            "plain": [lambda: calls["insert"](_row())] * 20,
            "enqueue": [lambda: calls["enqueue"](_event())] * 20,
        }
        for way, each in ways.items():
            began = time.process_time()
            for call in each:
                await call() if waits else call()
            spent[way] += time.process_time() - began
    return {way: seconds / (events // 20 * 20) * 1e6 for way, seconds in spent.items()}


async def measure(drivers: list[str], events: int, rounds: int) -> None:
    """Print a line for each driver."""
    with Servers([]) as servers:
        for name in drivers:
            async with _DRIVERS[name](servers.fresh_table()) as calls:
                waits = name.endswith("asyncpg")
                await _round(calls, events, waits=waits)  # warm
                done = [await _round(calls, events, waits=waits) for _ in range(rounds)]
            shown = "  ".join(f"{way} {statistics.median(one[way] for one in done):6.1f} us" for way in _WAYS)
            pairs = (("enqueue", "plain"), ("given", "ready"), ("enqueue", "ready"))
            ratios = (f"{a} {statistics.median(one[a] / one[b] for one in done):.2f} x {b}" for a, b in pairs)
            print(f"{name:20} {shown}  {', '.join(ratios)}", flush=True)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--driver", action="append", choices=list(_DRIVERS), help="all, unless named")
    parser.add_argument("--events", type=int, default=1000, help="of a round, by each way")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    asyncio.run(measure(options.driver or list(_DRIVERS), options.events, options.rounds))


if __name__ == "__main__":
    main()
