"""How fast a backlog drains, beside the pace of the database itself: ``python -m benchmarks.drain``.

Each cell gets a fresh table and a fresh topic or stream on real servers that this program starts. Beside the relay's
own pace stand two others. The *floor* is a plain claim and settle in a bare loop on one connection, without a
publisher (``benchmarks.floor``): what the database gives to a relay that waits for each statement. The *broker's floor*
is the same messages through the same client library from memory (``benchmarks.brokerfloor``). Our relay runs with
ON_DELIVERED=keep and ON_DELIVERED=delete. ``--relay NAME=COMMAND`` adds another relay that honours the contract.

A round is the floor and everything that drains into one publisher at one batch size. Rounds are interleaved and
repeated; the table shows medians, and the spread of the ratio to the floor of the same round. A round is thrown away
and repeated when other processes used more than 10% of a core, or steal was above 5%.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import psycopg

from benchmarks.brokerfloor import broker_pace
from benchmarks.destinations import RabbitMQ
from benchmarks.disturbance import Sample
from benchmarks.drain_table import table
from benchmarks.filling import UNFINISHED, fill, hide, note_deletes, pace, pace_of_deletes, show
from benchmarks.floor import floor
from benchmarks.measured import Cell, Machine, Round, load
from benchmarks.parts import SETTINGS, Parts, parts_table
from benchmarks.process import RelayProcess, thread_seconds
from benchmarks.servers import Servers
from tests.support.servers.aws import CREDENTIALS

_BY_INDEX = "SET enable_seqscan = off; SET enable_bitmapscan = off"
# A look for unfinished rows takes next to nothing from PostgreSQL; that is not counted as the relay's, either.
_DEADLINE = 600  # seconds for one cell
_CLOSING = 5.0  # seconds in which the servers stop
_FLOOR = "floor"
_BUSY_FLOOR = "floor beside a busy core"
_BROKER_FLOOR = "broker's floor"
_EPILOG = """
A run for a slot of 120 seconds:
python -m benchmarks.drain --publishers kafka --batches 1000 --events 50000 --no-broker-floor --within 110
"""


class Contender(NamedTuple):
    """What drains a table, or a floor."""

    publisher: str
    relay: str = ""
    command: str = ""
    """Starts another relay than ours."""
    on_delivered: str = "keep"


class Group(NamedTuple):
    """What is compared within one round: the floor, and whatever drains into one publisher."""

    batch: int
    contenders: tuple[Contender, ...]


def _environment(servers: Servers, url: str, who: Contender, batch: int) -> dict[str, str]:
    env = {
        "STORAGE_URL": url,
        "PUBLISHER_TYPE": who.publisher,
        "PUBLISHER_URL": servers.url(who.publisher),
        "BATCH_SIZE": str(batch),
        "RELAY_ID": "benchmark",
        "ON_DELIVERED": who.on_delivered,
        "HTTP_ALLOW_PRIVATE": "true",
    }
    if who.publisher == "sqs":
        env |= CREDENTIALS
    return env


def _drain(options: argparse.Namespace, servers: Servers, url: str, who: Contender, batch: int, target: str) -> Cell:
    count: int = options.events
    deletes = who.on_delivered == "delete"
    with psycopg.connect(url, autocommit=True) as connection:
        if deletes:
            note_deletes(connection)
        hide(connection)
        connection.execute(_BY_INDEX)
        with RelayProcess(_environment(servers, url, who, batch), who.command) as relay:
            parts = Parts(servers, url, relay.pid) if options.parts else None
            wal_before, postgres_before = servers.postgres_wal(), servers.postgres_cpu()
            before, broker_before = relay.usage().cpu_seconds, servers.broker_cpu(who.publisher)
            looks_before = thread_seconds(Path(f"/proc/{connection.info.backend_pid}"))
            show(connection)
            _wait_until_drained(connection, relay, f"{who.relay} with {who.publisher} at {batch}")
            looks = thread_seconds(Path(f"/proc/{connection.info.backend_pid}")) - looks_before
            usage, postgres = relay.usage(), servers.postgres_cpu() - postgres_before - looks
            wal_bytes, broker = servers.postgres_wal() - wal_before, servers.broker_cpu(who.publisher)
            of_parts = parts.per_event(count) if parts else {}
    received = servers.brokers[who.publisher].received(target) if who.publisher in servers.brokers else None
    return Cell(
        who.publisher,
        who.relay,
        batch,
        pace_of_deletes(url, count) if deletes else pace(url),
        (usage.cpu_seconds - before) / count * 1e6,
        postgres / count * 1e6,
        usage.peak_mebibytes,
        None if received is None else count - received.distinct,
        None if received is None else received.messages - received.distinct,
        wal_bytes / count,
        broker_cpu_seconds_per_million=None if broker is None else (broker - (broker_before or 0.0)) / count * 1e6,
        parts=of_parts,
    )


def _wait_until_drained(connection: psycopg.Connection, relay: RelayProcess, who: str) -> None:
    deadline = time.monotonic() + _DEADLINE
    while connection.execute(UNFINISHED).fetchone() == (True,):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{who} did not drain in {_DEADLINE} s:\n{relay.log_tail()}")
        time.sleep(0.2)


def _measure(options: argparse.Namespace, servers: Servers, batch: int, who: Contender) -> Cell:
    target = f"bench{uuid.uuid4().hex[:10]}"
    broker = servers.brokers.get(who.publisher)
    names = (target,) if broker is None else broker.prepare(target)
    try:
        if who.relay == _BROKER_FLOOR:
            alone = broker_pace(who.publisher, servers.url(who.publisher), names, batch, options.events)
            return Cell(who.publisher, who.relay, batch, alone.per_second, alone.cpu_seconds_per_million)
        url = servers.fresh_table()
        with psycopg.connect(url, autocommit=True) as connection:
            fill(connection, names, options.events, keys=options.keys)
        if who.publisher == _FLOOR:
            cell = floor(servers, url, batch, with_parts=options.parts)
        elif who.publisher == _BUSY_FLOOR:
            with _busy_core():
                cell = replace(floor(servers, url, batch, with_parts=options.parts), publisher=_BUSY_FLOOR)
        else:
            cell = _drain(options, servers, url, who, batch, target)
        servers.drop_table(url)
        return cell
    finally:
        if broker is not None:
            broker.discard(target)


@contextmanager
def _busy_core() -> Iterator[None]:
    """A process that computes without end: what the same work takes while the machine's other core is busy."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def _in_mode(name: str, command: str, on_delivered: str) -> Contender:
    return Contender("", name if on_delivered == "keep" else f"{name}, {on_delivered}", command, on_delivered)


def _groups(options: argparse.Namespace, servers: Servers) -> list[Group]:
    relays = [_in_mode("openoutbox", "", mode) for mode in options.modes]
    relays += [_in_mode(*relay.split("=", 1), mode) for relay in options.relay for mode in options.relay_modes]
    groups = []
    for batch in options.batches:
        for publisher in options.publishers:
            floors = [Contender(_FLOOR)] + [Contender(_BUSY_FLOOR)] * options.busy_floor
            contenders = [*floors, *(relay._replace(publisher=publisher) for relay in relays)]
            if publisher in servers.brokers and options.broker_floor and publisher != "sqs":  # an emulator
                contenders.append(Contender(publisher, _BROKER_FLOOR))
            groups.append(Group(batch, tuple(contenders)))
    return groups


def _rounds(
    options: argparse.Namespace, servers: Servers, groups: Sequence[Group], ends: float
) -> Iterator[tuple[Round, list[Cell]]]:
    """Play rounds of each group in turn until enough count; at most twice as many, and none that would end too late."""
    counted: Counter[Group] = Counter()
    number, longest = 0, 0.0
    for turn in range(2 * options.rounds):
        direction = 1 if turn % 2 == 0 else -1
        for group in groups[::direction]:
            began = time.monotonic()
            if counted[group] == options.rounds or (number and began + longest > ends):
                continue
            before = Sample.now()
            cells = [_cell(options, servers, group.batch, who, number) for who in _in_turn(group.contenders, turn)]
            disturbance = Sample.now().since(before)
            counts = options.disturbed or not disturbance.excessive
            counted[group] += counts
            longest = max(longest, time.monotonic() - began)
            print(f"round {number + 1}: {disturbance}{'' if counts else '; thrown away'}", file=sys.stderr)
            yield Round(number, disturbance, counts), cells
            number += 1


def _in_turn(contenders: Sequence[Contender], turn: int) -> Sequence[Contender]:
    """The contenders in another order in each turn: a place behind a broker that has just started is a bad one."""
    first = turn * len(contenders) // 3 % len(contenders)
    return (*contenders[first:], *contenders[:first])[:: 1 if turn % 2 == 0 else -1]


def _cell(options: argparse.Namespace, servers: Servers, batch: int, who: Contender, number: int) -> Cell:
    cell = replace(_measure(options, servers, batch, who), round=number)
    name = f"{who.publisher} {who.relay}"
    print(f"  {name:>25} {batch:>5}: {cell.events_per_second:>8,.0f} events/s", file=sys.stderr)
    return cell


def _add_contenders(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", action="store_true", help="also of what the CPU time consists (benchmarks.parts)")
    parser.add_argument("--busy-floor", action="store_true", help="the floor also beside a core that is busy")
    parser.add_argument(
        "--relay",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="another relay that takes the contract's environment variables; may be repeated",
    )
    parser.add_argument("--relay-modes", nargs="+", default=["keep"], choices=["keep", "delete"], help="of --relay")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.drain",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--events", type=int, default=100_000, help="rows of each cell (default 100000)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="rounds of each publisher and batch size that count (default 3)"
    )
    parser.add_argument("--batches", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--publishers", nargs="+", default=["null", "kafka", "nats", "redis", "rabbitmq"])
    parser.add_argument(
        "--queues", type=int, default=1, help="queues that RabbitMQ spreads the events over (default 1)"
    )
    parser.add_argument("--modes", nargs="+", default=["keep", "delete"], choices=["keep", "delete"])
    parser.add_argument(
        "--no-broker-floor", dest="broker_floor", action="store_false", help="without the broker's floors"
    )
    parser.add_argument("--keys", type=int, default=1000, help="partition keys of the events; 0: none (default 1000)")
    _add_contenders(parser)
    parser.add_argument("--disturbed", action="store_true", help="count disturbed rounds, too")
    parser.add_argument(
        "--within", type=float, default=float("inf"), metavar="SECONDS", help="begin no round that would end later"
    )
    parser.add_argument("--json", type=Path, help="write every cell to this file")
    parser.add_argument("--append", action="store_true", help="leave in the --json file what it holds")
    options = parser.parse_args()
    if malformed := [relay for relay in options.relay if "=" not in relay]:
        parser.error(f"--relay {malformed[0]}: write NAME=COMMAND")
    return options


class Figures:
    """What was measured, and its file: written after each round, so that an early end loses none."""

    def __init__(self, path: Path | None, events: int, *, append: bool) -> None:
        """With ``append`` what the file holds stays, as earlier rounds."""
        self._path = path
        self._machine = asdict(Machine.this(events=events))
        earlier = load(path) if path and append and path.exists() else {"rounds": [], "cells": []}
        self._rounds, self._cells = earlier["rounds"], earlier["cells"]
        self._first = max((cell["round"] + 1 for cell in self._cells), default=0)
        self.counted: list[Cell] = []
        """The cells of this run's rounds that count."""

    def add(self, played: Round, cells: Sequence[Cell]) -> None:
        """Add a round, and write the file."""
        self.counted += cells if played.counted else []
        self._rounds.append(asdict(replace(played, number=played.number + self._first)))
        self._cells += [asdict(replace(cell, round=cell.round + self._first)) for cell in cells]
        if self._path:
            figures = {"machine": self._machine, "rounds": self._rounds, "cells": self._cells}
            self._path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Measure, print the table of the rounds that count, and write every cell as JSON with --json."""
    options = _arguments()
    RabbitMQ.queues = options.queues
    ends = time.monotonic() + options.within - _CLOSING
    figures = Figures(options.json, options.events, append=options.append)
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(options.publishers, SETTINGS if options.parts else None))
        for played, cells in _rounds(options, servers, _groups(options, servers), ends):
            figures.add(played, cells)
    if not figures.counted:
        sys.exit("every round was disturbed; --disturbed counts them, too")
    print(table(figures.counted))
    if options.parts:
        print(parts_table(figures.counted))


if __name__ == "__main__":
    main()
