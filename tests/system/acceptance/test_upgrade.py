"""docs/operate/upgrades.md, followed from commit 0d5d384, which is 0.1.0, with every part of that version at work.

Its programs run from a source archive of the commit. A checkout whose history does not reach it skips this.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from deploy.release.source import EARLIER
from relay.eventstore import NO_STREAM, EventStore, NewEvent
from relay.localservers.postgres import NEWEST_BUILD
from tests.cli.running import call_cli
from tests.spark.plain import save
from tests.spark.write.test_saves import orders
from tests.support.daemon import Daemon
from tests.support.documents import blocks
from tests.support.fixtures.outbox import as_user
from tests.support.paths import ROOT
from tests.support.servers.memory_postgres import MemoryPostgres
from tests.support.waiting import patience, wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.process]

[UPGRADE, _] = blocks("docs/operate/upgrades.md")
EXTENSIONS = ("--with", "key-order", "--with", "wake-up")
TENANT, STREAM = UUID(int=1), UUID(int=2)
INSERT = (
    "INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload) "
    "SELECT gen_random_uuid(), 't', (n % 5)::text, '' FROM generate_series(1, 20) AS n"
)
COMMANDS = [["migrate", *EXTENSIONS], ["log", "migrate"], ["store", "migrate"], ["spark", "setup"]]
SET_UP = f"""
import asyncio
import sys
from uuid import UUID
from relay.eventstore import NO_STREAM, EventStore, NewEvent
from relay_cli.main import main

async def store():
    async with await EventStore.connect(URL) as store:
        await store.provision_tenant(UUID(int={TENANT.int}))
        await store.append(UUID(int={TENANT.int}), UUID(int={STREAM.int}), [NewEvent("before")], NO_STREAM)

URL = sys.argv[1]
for command in {COMMANDS}:
    sys.argv = ["relay-cli", *command]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
asyncio.run(store())
"""


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The source archive of 0.1.0, unpacked."""
    commit, git = EARLIER["v0.1.0"], ["git", "-C", str(ROOT)]
    reached = (
        shutil.which("git")
        and not subprocess.run(
            [*git, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True, check=False
        ).returncode
    )
    if not reached:
        pytest.skip(f"upgrades start at commit {commit[:7]}, which is not in this checkout: git fetch --unshallow")
    archive = subprocess.run([*git, "archive", "--format=tar", commit], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(tmp_path / "earlier", filter="data")
    return tmp_path / "earlier"


@pytest.fixture
def url() -> Iterator[str]:
    """A database of a server of its own, since roles belong to the server."""
    with MemoryPostgres(build=NEWEST_BUILD) as server:
        yield server.url


def run(url: str, text: str, user: str = "") -> list[tuple[object, ...]]:
    with psycopg.connect(as_user(url, user) if user else url, autocommit=True) as connection:
        cursor = connection.execute(text.encode())
        return cursor.fetchall() if cursor.description else []


def counts(url: str) -> dict[object, object]:
    return {row[0]: row[1] for row in run(url, "SELECT status, count(*) FROM openoutbox_events GROUP BY status")}


def set_up(earlier: Path, url: str) -> None:
    """Every part of 0.1.0, by its own commands, one after the other in one process."""
    path = os.pathsep.join((str(earlier), str(earlier / "cli")))
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "STORAGE_URL": url, "LOG_STORE_URL": url}
    program = [sys.executable, "-W", "ignore", "-c", SET_UP, url]
    done = subprocess.run(
        program, cwd=earlier, env=env, capture_output=True, text=True, timeout=patience(), check=False
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    run(url, (earlier / "deploy" / "postgres" / "roles.sql").read_text(encoding="utf-8"))
    for name in ("writer", "relay"):
        run(url, f"CREATE ROLE u_{name} LOGIN IN ROLE openoutbox_{name}")


def relay_of(url: str, **variables: str) -> Daemon:
    known = {"PUBLISHER_TYPE": "null", "ORDERING": "key", "WAKE_UP": "true", "POLL_INTERVAL": "100ms"}
    return Daemon(as_user(url, "u_relay"), {**known, **variables})


async def test_every_part_is_upgraded_in_the_order_of_the_page(earlier: Path, url: str, tmp_path: Path) -> None:
    set_up(earlier, url)
    path = os.pathsep.join((str(earlier), str(earlier / "cli")))
    with relay_of(url, LOG_STORE_URL=url, PYTHONPATH=path) as old:
        run(url, INSERT, "u_writer")
        wait_until(lambda: counts(url) == {"DELIVERED": 20}, what="the deliveries of 0.1.0")
        assert "relay 0.1.0 starting" in old.log()
        for line in UPGRADE.text.splitlines():
            command = shlex.split(line)[1:]
            command += EXTENSIONS if command[0] == "migrate" else ()
            done = call_cli(tmp_path, *command, STORAGE_URL=url, DELIVERY_LOG_URL=url)
            assert (done.returncode, done.stderr) == (0, ""), (line, done.stdout)
            run(url, INSERT, "u_writer")
        inserted = 20 * (1 + len(UPGRADE.text.splitlines()))
        wait_until(lambda: counts(url) == {"DELIVERED": inserted}, what="the deliveries of 0.1.0 on what is new")
        run(url, "CREATE ROLE u_log LOGIN IN ROLE openoutbox_log_recorder")
        log = as_user(url, "u_log")
        with relay_of(url, DELIVERY_LOG_URL=log) as new:
            new.wait_ready()
            assert old.stop() == 0
            run(url, INSERT, "u_writer")
            wait_until(lambda: counts(url) == {"DELIVERED": inserted + 20}, what="the deliveries of the new version")
            attempts = "SELECT count(*) FROM openoutbox_log.attempts"
            wait_until(lambda: run(url, attempts) == [(inserted + 20,)], what="the attempts")
            known = {"PUBLISHER_TYPE": "null", "ORDERING": "key", "WAKE_UP": "true"}
            done = call_cli(tmp_path, "check", STORAGE_URL=as_user(url, "u_relay"), DELIVERY_LOG_URL=log, **known)
            assert done.returncode == 0, done.stdout
            assert new.stop() == 0
    await other_parts_work(url, tmp_path)


async def other_parts_work(url: str, folder: Path) -> None:
    """What 0.1.0 has stored is read, and each part takes more, as the users of its roles."""
    for user, role in {
        "u_store": "openoutbox_store_writer, openoutbox_store_reader",
        "u_spark": "openoutbox_spark_writer",
    }.items():
        run(url, f"CREATE ROLE {user} LOGIN IN ROLE {role}")
    async with await EventStore.connect(as_user(url, "u_store")) as store:
        await store.append(TENANT, STREAM, [NewEvent("after")], 1)
        assert [event.type for event in await store.read_all()] == ["before", "after"]
        await store.append(TENANT, UUID(int=3), [NewEvent("another")], NO_STREAM)
    save(orders(10), idColumns="number", url=as_user(url, "u_spark"))
    assert counts(url)["PENDING"] == 10
    done = call_cli(folder, "roles", STORAGE_URL=url)
    assert "are up to date" in done.stdout
