"""A password that is changed under load: the relay goes on with the one in its file, or of its command."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from relay.localservers.postgres import PostgresServer
from tests.support.daemon import Daemon
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import create_database
from tests.support.servers.memory_postgres import MemoryPostgres
from tests.support.waiting import wait_until

USER = "rotated"
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotated'"

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One of this file's own, since its rules and roles are changed."""
    with MemoryPostgres() as server:
        rules = server.folder / "data/pg_hba.conf"
        rules.write_text(f"host all {USER} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute(f"CREATE ROLE {USER} LOGIN".encode())
            admin.execute("SELECT pg_reload_conf()")
        yield server


@pytest.fixture
def guarded(server: PostgresServer) -> Outbox:
    """An outbox whose relay logs in by SCRAM."""
    outbox = Outbox.create(create_database(server.url))
    outbox.database.run(f"GRANT openoutbox_relay TO {USER}")
    return outbox


@pytest.fixture
def daemon_of() -> Iterator[StartDaemon]:
    with ExitStack() as stack:
        yield lambda **env: stack.enter_context(Daemon("", env))


def url_of(outbox: Outbox, password: str) -> str:
    place = outbox.url.rpartition("@")[2]
    return f"postgres://{USER}:{password}@{place}" if password else f"postgres://{USER}@{place}"


def change(outbox: Outbox, password: str) -> None:
    outbox.database.run(f"ALTER ROLE {USER} PASSWORD '{password}'")


@pytest.mark.parametrize("of_libpq", [False, True], ids=["STORAGE_URL_FILE", "passfile"])
def test_a_password_that_changes_in_its_file_is_taken(
    guarded: Outbox, daemon_of: StartDaemon, tmp_path: Path, of_libpq: bool
) -> None:
    file = tmp_path / "secret"
    file.touch(0o600)

    def put(password: str) -> None:
        file.write_text(f"*:*:*:{USER}:{password}\n" if of_libpq else url_of(guarded, password) + "\n")

    change(guarded, "first")
    put("first")
    address = {"STORAGE_URL": "", "STORAGE_URL_FILE": str(file)}
    if of_libpq:
        address = {"STORAGE_URL": f"{url_of(guarded, '')}?passfile={file}"}
    relay = daemon_of(**address, PUBLISHER_TYPE="null").wait_ready()
    guarded.fill("before", 2000)
    change(guarded, "second")
    guarded.database.run(CUT)
    guarded.fill("after", 2000)
    wait_until(lambda: relay.get("/readyz")[0] == 503, what="the login is refused")
    put("second")
    wait_until(lambda: relay.get("/readyz")[0] == 200, 5, "the new password is taken")
    wait_until(lambda: guarded.counts() == {"DELIVERED": 4000}, what="every event is delivered")
    assert relay.stop() == 0
    assert not {"first", "second"} & set(relay.log().replace("@", " ").replace(":", " ").split())


def test_a_command_is_asked_again_when_its_password_was_refused(
    guarded: Outbox, daemon_of: StartDaemon, tmp_path: Path
) -> None:
    change(guarded, "first")
    token = tmp_path / "token"
    token.write_text("first\n2099-01-01T00:00:00Z\n")
    command = shlex.join([sys.executable, "-c", "import sys; print(open(sys.argv[1]).read())", str(token)])
    relay = daemon_of(
        STORAGE_URL=url_of(guarded, ""), STORAGE_PASSWORD_COMMAND=command, PUBLISHER_TYPE="null"
    ).wait_ready()
    guarded.fill("before", 1000)
    change(guarded, "second")
    token.write_text("second\n")
    guarded.database.run(CUT)
    guarded.fill("after", 1000)
    wait_until(lambda: guarded.counts() == {"DELIVERED": 2000}, what="every event is delivered")
    assert relay.get("/readyz")[0] == 200
    assert relay.stop() == 0


def test_a_command_that_fails_is_said_without_what_it_printed(guarded: Outbox, daemon_of: StartDaemon) -> None:
    relay = daemon_of(
        STORAGE_URL=url_of(guarded, ""),
        STORAGE_PASSWORD_COMMAND=shlex.join([sys.executable, "-c", "print('hunter2'); raise SystemExit(3)"]),
        PUBLISHER_TYPE="null",
    )
    wait_until(lambda: "STORAGE_PASSWORD_COMMAND gives no password: it ended with exit code 3" in relay.log())
    assert "hunter2" not in relay.log()
