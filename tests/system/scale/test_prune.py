"""Many rows are pruned while a relay drains a backlog: what that costs the relay, and whom it makes wait.

The pace is compared within one drain, in windows with and without a prune in turn (a pair with it first, the next with
it last), so that whatever else the machine does falls on both. Each window with a prune is a process that is
interrupted at its end and that the next one resumes.
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from relay.localservers.postgres import PostgresServer
from relay.outbox.admin.prune import PruneOptions, prune
from relay.postgres.sql import TableName
from tests.cli.running import COMMAND, environment
from tests.outbox.admin.filling import fill_old
from tests.support.daemon import Daemon
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import create_database
from tests.support.waiting import pace, wait_until

pytestmark = [pytest.mark.scale, pytest.mark.postgres, pytest.mark.timeout(1800)]

PAIRS = 6
WINDOW = 5.0  # seconds
FIRST = 100_000
"""Events that show how many it takes to outlast the windows."""
_WAITED = "still waiting for"
_SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    # With these two the server's log tells of every wait for a lock that is longer.
    "log_lock_waits": "on",
    "deadlock_timeout": "100ms",
}


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer(durable=True, settings=_SETTINGS) as server:
        yield server


@contextmanager
def pruning(outbox: Outbox, folder: Path, ages: list[float]) -> Iterator[None]:
    """A prune that is at work already, and is interrupted at the end; ``ages`` are those of its transactions."""
    old = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'openoutbox-relay-cli')"
    stop = threading.Event()
    watch = threading.Thread(target=_watch_until, args=(outbox, stop, ages))
    env = environment(STORAGE_URL=outbox.pruner_url)
    command = [*COMMAND, "prune"]
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as process:
        watch.start()
        try:
            wait_until(lambda: outbox.database.run(old) == [(True,)], 30, "prune to be at work")
            yield
        finally:
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=30)
            stop.set()
            watch.join()
    assert process.returncode == 130, out
    assert "not complete; run it again to continue" in out


def _watch_until(outbox: Outbox, stop: threading.Event, ages: list[float]) -> None:
    with outbox.database.connect() as connection:
        while not stop.wait(0.01):
            rows = connection.execute(
                "SELECT EXTRACT(EPOCH FROM clock_timestamp() - xact_start)::float8 FROM pg_stat_activity "
                "WHERE application_name = 'openoutbox-relay-cli' AND xact_start IS NOT NULL"
            ).fetchall()
            ages += [seconds for (seconds,) in rows]


def window(relay: Daemon) -> float:
    """Events per second while it lasts, as the relay counts them."""
    before, began = relay.metric("openoutbox_events_total", status="success"), time.monotonic()
    pace(WINDOW)
    after, seconds = relay.metric("openoutbox_events_total", status="success"), time.monotonic() - began
    return (after - before) / seconds


def compare(outbox: Outbox, relay: Daemon, folder: Path, ages: list[float]) -> list[tuple[float, float]]:
    """Events per second without a prune and with one beside, pair by pair."""
    pairs = []
    for number in range(PAIRS):
        seconds: dict[bool, float] = {}
        for beside in (False, True) if number % 2 == 0 else (True, False):
            with pruning(outbox, folder, ages) if beside else nullcontext():
                seconds[beside] = window(relay)
        pairs.append((seconds[False], seconds[True]))
    assert outbox.unfinished(), "the backlog must outlast the windows"
    return pairs


def backlog(outbox: Outbox, relay: Daemon) -> int:
    """Events for longer than all windows, by the pace of the first; how many, counted with those."""
    outbox.fill("t", FIRST)
    needed = int(window(relay) * (2 * PAIRS + 6) * (WINDOW + 3) * 1.3)
    for _ in range(10):
        outbox.fill("t", needed // 10)
    return FIRST + needed // 10 * 10


@pytest.mark.parametrize("old", [500_000, 2_000_000])
def test_rows_are_pruned_beside_a_drain(
    server: PostgresServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], old: int
) -> None:
    outbox = Outbox.create(create_database(server.url))
    for _ in range(4):
        fill_old(outbox, "DELIVERED", old // 4)
    outbox.database.run("VACUUM ANALYZE openoutbox_events")
    outbox.database.run("CHECKPOINT")
    ages: list[float] = []
    with Daemon(outbox.relay_url, {"PUBLISHER_TYPE": "null"}) as relay:
        relay.wait_ready()
        events = backlog(outbox, relay)
        pairs = compare(outbox, relay, tmp_path, ages)
        gone = old - int(outbox.database.run("SELECT count(*) FROM openoutbox_events WHERE event_type = 'old'")[0][0])
        outbox.wait_finished(600)
    began = time.monotonic()
    rest = prune(outbox.pruner_url, TableName(), PruneOptions()).delivered
    seconds = time.monotonic() - began
    ratios = [beside / alone for alone, beside in pairs]
    waits = (server.folder / "log").read_text(encoding="utf-8").count(_WAITED)
    with capsys.disabled():
        print(f"\nevents/s without and with a prune beside: {[(round(a), round(b)) for a, b in pairs]}")
        print(f"ratio, median {statistics.median(ratios):.2f} (of {min(ratios):.2f} to {max(ratios):.2f})")
        print(f"{gone} rows pruned by {PAIRS} interrupted runs in {PAIRS * WINDOW:.0f} s beside the drain")
        print(f"then {rest} in {seconds:.1f} s with nothing waiting")
        print(f"longest transaction of prune {max(ages):.3f} s; waits for a lock over 100 ms: {waits}")
    assert gone + rest == old
    assert outbox.counts() == {"DELIVERED": events}
    outbox.check_invariants()
    assert gone > 0
    assert waits == 0
    assert max(ages) < 0.5
    assert statistics.median(ratios) > 0.9
