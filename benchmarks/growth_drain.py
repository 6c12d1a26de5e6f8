"""One drain of ``benchmarks.growth``: outboxes that are filled out of sight, and relays that are frozen half-way."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

import psycopg
from psycopg import sql

from benchmarks.filling import hide, insert, show, tidy
from benchmarks.growth_table import Growth
from benchmarks.process import RelayProcess, cpu_seconds
from benchmarks.servers import Servers
from relay.outbox.extensions import add_extension
from relay.outbox.migrate import migrate
from relay.postgres.sql import TableName

_SHARES: Final = (0.5, 0.25, 0.1)
"""Of the rows, after which the relays are frozen: the next one where they delivered all before they froze."""
_LONGEST: Final = 6.0  # seconds of a drain, whatever share was delivered
_SHORTEST: Final = 0.01  # seconds between two readings of the counters
_START: Final = 60.0  # seconds within which a relay claims and delivers
_COUNTER: Final = re.compile(rb'openoutbox_events_total\{[^}]*status="success"[^}]*\} (\S+)')
_CLAIMED: Final = "SELECT EXISTS (SELECT FROM openoutbox_events WHERE status = 'DELIVERING' AND locked_at IS NOT NULL)"
_LEFT: Final = """
SELECT count(*) FILTER (WHERE status = 'PENDING'), count(*)
FROM openoutbox_events WHERE status IN ('PENDING', 'DELIVERING')
"""


class _RanOut(Exception):
    """No row was left to claim when the relays froze: for how long is not known."""


@dataclass(frozen=True)
class _Outbox:
    servers: Servers
    url: str
    schema: str = "public"

    def connect(self) -> psycopg.Connection:
        """On which ``openoutbox_events`` is this outbox."""
        return psycopg.connect(self.url, autocommit=True, options=f"-c search_path={self.schema}")

    def settings(self) -> dict[str, str]:
        """Of a relay."""
        return {"STORAGE_URL": self.url, "STORAGE_TABLE_NAME": f"{self.schema}.openoutbox_events"}


@dataclass(frozen=True)
class Costs:
    """CPU seconds of relays and of PostgreSQL, and bytes of write-ahead log, so far."""

    relays: float
    postgres: float
    wal: int

    @classmethod
    def now(cls, servers: Sequence[Servers], relays: Sequence[RelayProcess] = ()) -> Costs:
        """Of all servers together."""
        return cls(
            sum(cpu_seconds(relay.pid) for relay in relays),
            sum(one.postgres_cpu() for one in servers),
            sum(one.postgres_wal() for one in servers),
        )

    def figures(self, plan: Growth, events: float, seconds: float, after: Costs) -> Growth:
        """The cell of a plan: what was used since, for each event."""
        return replace(
            plan,
            events_per_second=events / seconds,
            relay_microseconds=(after.relays - self.relays) / events * 1e6,
            postgres_microseconds=(after.postgres - self.postgres) / events * 1e6,
            wal_bytes=(after.wal - self.wal) / events,
        )


def drain(servers: Sequence[Servers], plan: Growth) -> Growth:
    """Measure one cell. ``servers`` are as many as the plan's outboxes need."""
    for share in _SHARES:
        try:
            return _drain(servers, plan, share)
        except _RanOut:
            print(f"  no row was left to claim when {share:.0%} were seen: again", file=sys.stderr)
    raise RuntimeError(f"{plan.relays} relays delivered all {plan.waiting} events each time; more --rows or --sizes")


def _outboxes(servers: Sequence[Servers], plan: Growth) -> list[_Outbox]:
    """Empty ones: schemas of one database, databases of one server, or servers."""
    if plan.place == "schema":
        url = servers[0].fresh_table()
        others = [f"outbox_{number}" for number in range(1, plan.tables)]
        with psycopg.connect(url, autocommit=True) as connection:
            for schema in others:
                connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
                migrate(url, TableName(schema=schema))
        return [_Outbox(servers[0], url, schema) for schema in ("public", *others)]
    homes = servers if plan.place == "server" else [servers[0]] * plan.tables
    return [_Outbox(home, home.fresh_table()) for home in homes[: plan.tables]]


def _fill(outbox: _Outbox, plan: Growth) -> None:
    if plan.ordering == "key":
        add_extension(outbox.url, TableName(), "key-order")
    _insert(outbox, "history", plan.delivered, status="DELIVERED")
    _insert(outbox, "event", plan.waiting // plan.tables, keys=plan.keys)
    with outbox.connect() as connection:
        tidy(connection)
        hide(connection)


def _insert(outbox: _Outbox, event_type: str, count: int, **values: Any) -> None:  # noqa: ANN401  # those of ``insert``
    """Insert rows by two sessions at once: ten million by one take three minutes."""

    def insert_half(half: int) -> None:
        with outbox.connect() as connection:
            insert(connection, event_type, half, **values)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(insert_half, (count // 2, count - count // 2)))


def _relay(outbox: _Outbox, plan: Growth, number: int) -> RelayProcess:
    # A short wait after an empty claim: the smallest backlog takes a tenth of a second, and the start is in it.
    settings = {"PUBLISHER_TYPE": "null", "POLL_INTERVAL": "10ms", "BATCH_SIZE": str(plan.batch)}
    settings |= {"ON_DELIVERED": plan.on_delivered, "ORDERING": plan.ordering, "RELAY_ID": f"benchmark-{number}"}
    return RelayProcess(settings | outbox.settings())


def _drain(servers: Sequence[Servers], plan: Growth, share: float) -> Growth:
    outboxes = _outboxes(servers, plan)
    used = list(dict.fromkeys(outbox.servers for outbox in outboxes))
    with ExitStack() as stack:
        for outbox in outboxes:
            _fill(outbox, plan)
            stack.callback(_drop, outbox)
        relays = [
            stack.enter_context(_relay(outboxes[number % plan.tables], plan, number)) for number in range(plan.relays)
        ]
        databases = [stack.enter_context(outbox.connect()) for outbox in outboxes]
        before = Costs.now(used, relays)
        for database in databases:
            show(database)
        _wait_for_claim(databases[0])
        started = time.monotonic()
        _watch(relays, plan.waiting, share, started)
        for relay in relays:
            os.kill(relay.pid, signal.SIGSTOP)
        seconds = time.monotonic() - started
        after = Costs.now(used, relays)
        left = [database.execute(_LEFT).fetchone() or (0, 0) for database in databases]
        for relay in relays:
            os.kill(relay.pid, signal.SIGCONT)
    pending, unfinished = map(sum, zip(*left, strict=True))
    if not pending:
        raise _RanOut
    # What is claimed and not settled counts half: at batch 1000 eight relays hold 9,000.
    events = plan.waiting // plan.tables * plan.tables - (pending + unfinished) / 2
    return before.figures(plan, events, seconds, after)


def _drop(outbox: _Outbox) -> None:
    if outbox.schema == "public":  # the first one of its database
        outbox.servers.drop_table(outbox.url)


def _wait_for_claim(database: psycopg.Connection) -> None:
    deadline = time.monotonic() + _START
    while database.execute(_CLAIMED).fetchone() != (True,):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {_START:g} s for a relay to claim")
        time.sleep(0.001)


def _watch(relays: Sequence[RelayProcess], rows: int, share: float, started: float) -> None:
    """Wait until the relays delivered that share of the rows, or for ``_LONGEST``, but until they deliver at all.

    A reading costs a relay a millisecond: the next one comes after half the time that is left at the pace so far, and
    no later than what the relays deliver for already, as the first events may have taken most of the time.
    """
    wanted, first = share * rows, 0.0
    while True:
        delivered, seconds = _delivered(relays), time.monotonic() - started
        first = first or (seconds if delivered else 0.0)
        if delivered >= wanted or (delivered and seconds >= _LONGEST):
            return
        if seconds >= _START:  # a busy machine may take a while to begin
            raise TimeoutError(f"waited {_START:g} s for a relay to deliver")
        left = (wanted / delivered - 1) * seconds / 2 if delivered else 0.0
        time.sleep(max(min(left, seconds - first, _LONGEST - seconds), _SHORTEST))


def _delivered(relays: Sequence[RelayProcess]) -> float:
    """How many events, by their own metrics."""
    total = 0.0
    for relay in relays:
        with urllib.request.urlopen(f"{relay.url}/metrics", timeout=5) as answer:
            counter = _COUNTER.search(answer.read())
        total += float(counter[1]) if counter else 0.0
    return total
