"""Writers whose transactions commit late or roll back, and relays of two versions on one table while it is migrated."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from relay.outbox.extensions import extension_names
from relay.postgres.sql import load_sql
from tests.cli.running import run_cli
from tests.support.daemon import Daemon
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox, give_rights
from tests.support.paths import ROOT
from tests.support.waiting import wait_until
from tests.system.chaos.brokers import Broker
from tests.system.chaos.conftest import MakeBroker
from tests.system.chaos.load import Writers
from tests.system.chaos.looking import Balance, check_finished, delivered, watch_setbacks

pytestmark = [pytest.mark.redis, pytest.mark.timeout(300)]


@pytest.mark.parametrize("broker", ["redis"], indirect=True)
def test_what_commits_late_is_delivered_and_what_rolls_back_never(
    outbox: Outbox, broker: Broker, daemon: StartDaemon, measured: Measured
) -> None:
    """Transactions that overtake one another: each stays open for up to two seconds after its inserts."""
    relays = [daemon(**broker.env(), RELAY_ID=f"relay-{number}").wait_ready() for number in range(2)]
    with Writers(outbox.url, broker.destination, per_second=2000, threads=24, hold=2.0) as writers:
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > 4 and len(writers.rolled_back) > 100, what="enough transactions")
    outbox.wait_finished(60)
    assert [relay.stop() for relay in relays] == [0, 0]
    check_finished(outbox)
    balance = Balance.of(writers, broker.received())
    balance.check()
    assert not writers.rolled_back & broker.received().keys()
    assert balance.duplicates == 0
    assert outbox.rows("max(attempts)") == [(0,)]
    measured(
        fault="transactions that commit up to 2 s late or roll back",
        events=balance.committed,
        rolled_back=len(writers.rolled_back),
        rolled_back_and_sent=0,
        duplicates=0,
        lost=balance.lost,
    )


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """The tree of the commit before this one."""
    git = ["git", "-C", str(ROOT)]
    known = subprocess.run([*git, "rev-parse", "--verify", "HEAD~1"], capture_output=True, text=True, check=False)
    if known.returncode:
        pytest.skip("this checkout has no history, so there is no previous commit to run")
    archive = subprocess.run([*git, "archive", known.stdout.strip()], capture_output=True, check=True).stdout
    (folder := tmp_path / "previous").mkdir()
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return folder


@pytest.fixture
def bare_outbox(outbox: Outbox) -> Outbox:
    """The table alone, as its first migration makes it: no index, no extension."""
    with outbox.database.connect() as connection:
        connection.execute("DROP TABLE openoutbox_events")
        connection.execute(load_sql("outbox/migrations/0001_create_table.sql").encode())
        give_rights(connection)
    return outbox


def check_version_used(previous: Path, python_path: dict[str, str], folder: Path) -> None:
    """A process with this environment imports the previous version, not the checkout."""
    program = [sys.executable, "-c", "import relay; print(relay.__file__)"]
    shown = subprocess.run(program, env=python_path, cwd=folder, capture_output=True, text=True, check=True)
    assert shown.stdout.startswith(str(previous))


def wait_for_progress(*relays: Daemon) -> None:
    """Wait until each of the relays has delivered 300 more events."""

    def successes() -> list[float]:
        return [relay.metric("openoutbox_events_total", status="success") for relay in relays]

    before = successes()

    def progress() -> bool:
        return all(later - earlier >= 300 for earlier, later in zip(before, successes(), strict=True))

    wait_until(progress, 60, "all relays to deliver")


def wait_for_counts(outbox: Outbox, *relays: Daemon) -> list[int]:
    """Wait until the relays have counted all that is delivered: a moment after the rows are committed."""

    def counts() -> list[int]:
        return [int(relay.metric("openoutbox_events_total", status="success")) for relay in relays]

    wait_until(lambda: sum(counts()) == delivered(outbox), what="the relays to have counted what they delivered")
    return counts()


def test_relays_of_two_versions_share_a_table_before_and_after_a_migration(
    bare_outbox: Outbox,
    make_broker: MakeBroker,
    daemon: StartDaemon,
    previous: Path,
    tmp_path: Path,
    measured: Measured,
) -> None:
    outbox, broker = bare_outbox, make_broker("redis")
    watch_setbacks(outbox)
    python_path = {"PYTHONPATH": f"{previous}{os.pathsep}{previous / 'client'}"}
    check_version_used(previous, python_path, tmp_path)
    # Few events at once, so that both get some.
    sizes = {"BATCH_SIZE": "20", "MAX_IN_FLIGHT": "20"}
    old = daemon(**broker.env(), **sizes, **python_path, RELAY_ID="old").wait_ready()
    new = daemon(**broker.env(), **sizes, RELAY_ID="new").wait_ready()
    with Writers(outbox.url, broker.destination, per_second=1000, threads=4) as writers:
        wait_for_progress(old, new)
        extensions = [word for name in extension_names() for word in ("--with", name)]
        done = run_cli(tmp_path, "migrate", "--storage-url", outbox.url, *extensions)
        assert done.returncode == 0, done.stderr
        wait_for_progress(old, new)
    outbox.wait_finished(60)
    delivered_by_old, delivered_by_new = wait_for_counts(outbox, old, new)
    assert old.stop() == new.stop() == 0
    check_finished(outbox)
    assert outbox.rows("max(attempts)") == [(0,)]
    balance = Balance.of(writers, broker.received())
    balance.check()
    assert balance.duplicates == 0
    measured(
        fault="relays of two versions on one table, migrated meanwhile",
        delivered_by_old=delivered_by_old,
        delivered_by_new=delivered_by_new,
        duplicates=0,
        lost=balance.lost,
    )
