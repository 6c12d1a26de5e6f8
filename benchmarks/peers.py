"""Our relay beside Debezium Server and others, into Kafka: ``python -m benchmarks.peers``.

Every peer gets a fresh database with the table that it reads, and a fresh topic; PostgreSQL's ``wal_level`` is
``logical`` for all of them. Each event is a transaction of its own and carries 512 bytes. After a warm-up the peer is
frozen (SIGSTOP) while a backlog is written, and continued: from this moment to the last message, by the broker's clock,
it drains. Then events come at a steady rate, and the time of each runs from the return of its COMMIT to the moment that
the broker stored it at. Then nothing comes. The warm-up is backlogs, too, until one is no faster than the one before: a
JVM that still compiles would be measured otherwise. CPU time is that of the peer and that of all PostgreSQL processes.

``--relay NAME=COMMAND`` adds another relay that honours the contract. ``--json`` adds the runs to those that the file
holds, so that a comparison can be measured in parts: ``--peers``, ``--only``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import time
import uuid
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from confluent_kafka import Message

from benchmarks.destinations import Kafka
from benchmarks.disturbance import Sample
from benchmarks.latencyfloor import moments
from benchmarks.measured import Machine, load
from benchmarks.peer import PEERS, ContractRelay, Peer
from benchmarks.peers_table import PeerRun, table
from benchmarks.process import usage
from benchmarks.servers import Servers
from benchmarks.writing import write_backlog, write_steadily

_PARTS = ("drain", "latency", "idle")
_DEADLINE = 300.0  # seconds for one backlog
_FASTER = 1.05  # a warm-up goes on while a backlog is faster than the one before by this
_MOST_BACKLOGS = 10  # of a warm-up
_LOOK = 0.05  # seconds
_LAST = 30.0  # seconds for the last messages of a steady rate
_TICK = 0.001  # seconds of Kafka's clock; the end of the tick counts
_EPILOG = """
Slots of 120 seconds: --only drain --rounds 1 --json FILE; then --only latency idle --rounds 1 --json FILE
"""


class _Costs(NamedTuple):
    """So far."""

    at: float
    """Unix time, s."""
    cpu: float
    """CPU seconds."""
    postgres: float
    wal: int
    """Bytes."""


class _Bench:
    """One peer at work on its table and topic."""

    def __init__(self, servers: Servers, peer: Peer, options: argparse.Namespace) -> None:
        kafka = servers.brokers["kafka"]
        assert isinstance(kafka, Kafka)
        self._kafka = kafka
        self._servers = servers
        self._peer = peer
        self._options = options
        self._topic = f"outbox.event.bench{uuid.uuid4().hex[:10]}"
        self._written = 0
        self._pid = 0

    def run(self) -> PeerRun:
        """Measure what the options name, in order."""
        self._kafka.prepare(self._topic)
        url = self._peer.prepare(self._servers, self._topic)
        figures: dict[str, float] = {}
        with psycopg.connect(url, autocommit=True) as connection, self._peer.start(url, self._kafka.url) as process:
            self._pid = process.pid
            figures["warm_up"] = self._warm(connection)
            for part, measure in (("drain", self._drain), ("latency", self._steady), ("idle", self._idle)):
                if part in self._options.only:
                    figures |= measure(connection)
            figures["peak_mebibytes"] = usage(self._pid).peak_mebibytes
        ids = [event_id for event_id, _ in self._stored()]
        distinct = len(set(ids))
        self._kafka.discard(self._topic)
        self._servers.drop_table(url)
        return PeerRun(self._peer.name, **figures, lost=self._written - distinct, duplicates=len(ids) - distinct)

    def _costs(self) -> _Costs:
        return _Costs(
            time.time(), usage(self._pid).cpu_seconds, self._servers.postgres_cpu(), self._servers.postgres_wal()
        )

    def _stored(self) -> list[tuple[str, float]]:
        """Event id and the time at which the broker stored it (Unix, s), of every message."""

        def event_id(message: Message) -> str:
            return bytes(dict(message.headers() or [])[self._peer.id_header]).decode().strip('"')

        messages = self._kafka.all(self._topic)
        return [(event_id(message), message.timestamp()[1] / 1000 + _TICK) for message in messages]

    def _backlog(self, connection: psycopg.Connection, count: int) -> tuple[_Costs, _Costs]:
        """Let the peer send a backlog; returns the costs before it could, and after it had."""
        os.killpg(self._pid, signal.SIGSTOP)
        try:
            write_backlog(connection, count)
            before = self._costs()
        finally:
            os.killpg(self._pid, signal.SIGCONT)
        self._written += count
        self._kafka.wait(self._topic, self._written, _DEADLINE)
        deadline = time.monotonic() + _DEADLINE
        while not self._peer.settled(connection):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._peer.name} did not settle its events within {_DEADLINE:g} s")
            time.sleep(_LOOK)
        return before, self._costs()

    def _warm(self, connection: psycopg.Connection) -> int:
        """Let the peer send backlogs until its rate rises no more; returns of how many events they were."""
        size: int = self._options.warm_up // 2
        rates = [0.0]
        while len(rates) < 3 or (rates[-1] > _FASTER * rates[-2] and len(rates) <= _MOST_BACKLOGS):
            before, after = self._backlog(connection, size)
            rates.append(size / (after.at - before.at))
            print(f"{self._peer.name}: {size:,} events to warm up, {rates[-1]:,.0f}/s", file=sys.stderr)
        return size * (len(rates) - 1)

    def _drain(self, connection: psycopg.Connection) -> dict[str, float]:
        count = self._options.events
        before, after = self._backlog(connection, count)
        last = max(at for _, at in self._stored())
        return {
            "events_per_second": count / (last - before.at),
            "cpu_per_million": (after.cpu - before.cpu) / count * 1e6,
            "postgres_per_million": (after.postgres - before.postgres) / count * 1e6,
            "wal_bytes": (after.wal - before.wal) / count,
        }

    def _steady(self, connection: psycopg.Connection) -> dict[str, float]:
        self._written += len(write_steadily(connection, moments(self._options.rate, self._options.seconds / 4)))
        before = self._costs()
        committed = write_steadily(connection, moments(self._options.rate, self._options.seconds))
        after = self._costs()
        self._written += len(committed)
        self._kafka.wait(self._topic, self._written, _LAST)
        first = dict(reversed(self._stored()))  # where a message came twice, its first one counts
        cuts = statistics.quantiles(
            ((first[event_id] - at) * 1000 for event_id, at in committed.items() if event_id in first), n=100
        )
        return {"stored_p50": cuts[49], "stored_p99": cuts[98], **_per_minute("steady", before, after)}

    def _idle(self, _: psycopg.Connection) -> dict[str, float]:
        time.sleep(self._options.idle / 4)  # the polling slows down
        before = self._costs()
        time.sleep(self._options.idle)
        return _per_minute("idle", before, self._costs())


def _per_minute(name: str, before: _Costs, after: _Costs) -> dict[str, float]:
    minutes = (after.at - before.at) / 60
    cpu, postgres = after.cpu - before.cpu, after.postgres - before.postgres
    return {f"{name}_cpu": cpu / minutes, f"{name}_postgres": postgres / minutes}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS), metavar="PEER")
    parser.add_argument("--relay", action="append", default=[], metavar="NAME=COMMAND", help="another relay")
    parser.add_argument("--only", nargs="+", default=_PARTS, choices=_PARTS, help="what is measured (default all)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each peer (default 3)")
    parser.add_argument("--warm-up", type=int, default=100_000, help="at least this many do not count (default 100000)")
    parser.add_argument("--events", type=int, default=200_000, help="events of the backlog (default 200000)")
    parser.add_argument("--rate", type=float, default=200.0, help="events a second at the steady rate (default 200)")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the steady rate (default 20)")
    parser.add_argument("--idle", type=float, default=20.0, help="seconds that the idle peer is watched (default 20)")
    parser.add_argument("--json", type=Path, help="add every run to this file")
    options = parser.parse_args()
    if malformed := [relay for relay in options.relay if "=" not in relay]:
        parser.error(f"--relay {malformed[0]}: write NAME=COMMAND")
    return options


def _write(path: Path, options: argparse.Namespace, run: PeerRun) -> None:
    figures: dict[str, Any] = load(path) if path.exists() else {"machine": {"parameters": {}}, "runs": []}
    of_parts: dict[str, dict[str, float]] = {
        "drain": {"events": options.events},
        "latency": {"rate": options.rate},
        "idle": {},
    }
    parameters = {name: value for part in options.only for name, value in of_parts[part].items()}
    machine = Machine.this(**{**figures["machine"]["parameters"], "warm_up": options.warm_up, **parameters})
    figures = {"machine": asdict(machine), "runs": [*figures["runs"], asdict(run)]}
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Measure the peers in turn, print a table, and add the runs to the file of --json."""
    options = _arguments()
    others = [relay.split("=", 1) for relay in options.relay]
    peers = [PEERS[name] for name in options.peers] + [ContractRelay(name, {}, command) for name, command in others]
    runs = []
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(["kafka"], {"wal_level": "logical"}))
        for number in range(options.rounds):
            for peer in peers if number % 2 == 0 else peers[::-1]:
                before = Sample.now()
                run = _Bench(servers, peer, options).run()
                disturbance = Sample.now().since(before)
                runs.append(replace(run, steal=disturbance.steal, others=disturbance.others))
                print(disturbance, file=sys.stderr)
                print(table(runs[-1:]).splitlines()[-1], file=sys.stderr)
                if options.json:
                    _write(options.json, options, runs[-1])
    print(table(runs))


if __name__ == "__main__":
    main()
