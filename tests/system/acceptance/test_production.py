"""Production on a managed PostgreSQL: TLS with an authority of its own, SCRAM, and an owner that is no superuser.

Every job runs with the environment and the files that the chart gives it, as a user of its own. TEST_POSTGRES_BIN names
the server's programs, for another version than the default one.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx
import psycopg
import pytest

from relay.app.database_roles import RolesRequest, Rooms
from relay.core.role import Role
from relay.eventstore import NO_STREAM, EventStore, NewEvent
from relay.outbox.extensions import extension_names
from relay.postgres.grants import Right, rights_of
from relay.postgres.roles import GROUPS, RoleGroup
from relay.postgres.sql import TableName
from tests.cli.running import call_cli, run_program
from tests.deploy.chart import ContainerOfChart, run_by_the_chart
from tests.deploy.jobs import DEPLOY
from tests.spark.plain import save
from tests.spark.write.test_saves import orders
from tests.support.daemon import Daemon
from tests.support.servers.postgres_secured import SecuredPostgres
from tests.support.waiting import pace, wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.packages, pytest.mark.xdist_group("production")]

TABLE = TableName("outbox", "orders")
INBOX = "orders.openoutbox_inbox"
STORE = "store"
TOKEN = (DEPLOY / "console" / "tokens").read_text(encoding="utf-8").split("is ", 1)[1].split(".", 1)[0]
USERS = {group.name: f"u_{group.name.removeprefix('openoutbox_')}" for group in GROUPS}
INSERT = "INSERT INTO orders.outbox (event_id, event_type, payload) VALUES (gen_random_uuid(), 't', '')"
CA = "/etc/openoutbox/ca/ca.crt"
FILES = "/etc/openoutbox/database"
CHART = {
    "config": {
        "PUBLISHER_TYPE": "null",
        "STORAGE_TABLE_NAME": str(TABLE),
        "STORAGE_URL_FILE": f"{FILES}/relay",
        "DELIVERY_LOG_URL_FILE": f"{FILES}/log",
        "POLL_INTERVAL": "100ms",
        "HEALTH_CHECK_INTERVAL": "500ms",
    },
    "caSecret": "ca",
    "extraVolumes": [{"name": "database", "secret": {"secretName": "database"}}],
    "extraVolumeMounts": [{"name": "database", "mountPath": FILES, "readOnly": True}],
    "migrate": {"with": [name for name in extension_names() if name != "tuning"], "roles": True},
    "console": {"enabled": True, "tokensSecret": "tokens"},
    "logPartitions": {"enabled": True, "retentionDays": 90},
}


@dataclass(frozen=True)
class Production:
    """The database, and what the chart runs against it."""

    server: SecuredPostgres
    folder: Path
    jobs: dict[str, ContainerOfChart]

    def url(self, user: str, ca_file: str = "", password: str = "") -> str:
        ca_file = ca_file or str(self.server.identities.ca_file)
        return self.server.url_of(user, password or f"secret-of-{user}", "app", ca_file)

    def sql(self, text: str, user: str = "master") -> list[tuple[object, ...]]:
        with psycopg.connect(self.url(user), autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def as_superuser(self, text: str) -> None:
        with psycopg.connect(self.server.server.database_url("app"), autocommit=True) as admin:
            admin.execute(text.encode())

    def cli(self, *arguments: str, user: str, **variables: str) -> subprocess.CompletedProcess[str]:
        url = self.url(user)
        places = {"STORAGE_TABLE_NAME": str(TABLE), "EVENT_STORE_SCHEMA": STORE}
        return call_cli(self.folder, *arguments, **{"STORAGE_URL": url, "DELIVERY_LOG_URL": url, **places, **variables})

    def done(self, *arguments: str, user: str, **variables: str) -> str:
        result = self.cli(*arguments, user=user, **variables)
        assert (result.returncode, result.stderr) == (0, ""), (arguments, result.stdout, result.stderr)
        return result.stdout

    def run(self, name: str) -> str:
        """A container of the chart to its end."""
        job = self.jobs[name]
        result = run_program([sys.executable, "-m", "relay_cli", *job.command[1:]], self.folder, **job.variables)
        assert (result.returncode, result.stderr) == (0, ""), (name, result.stdout, result.stderr)
        return result.stdout

    @contextmanager
    def started(self, name: str) -> Iterator[Daemon]:
        """A container of the chart that goes on."""
        job = self.jobs[name]
        variables = {key: value for key, value in job.variables.items() if key not in ("SERVER_PORT", "CONSOLE_PORT")}
        module = "relay" if name == "relay" else "relay_cli"
        daemon = Daemon(variables.get("STORAGE_URL", ""), variables, module, job.command[1:])
        daemon.env["CONSOLE_PORT"] = daemon.env["SERVER_PORT"]
        with daemon:
            yield daemon

    def counts(self) -> dict[object, object]:
        rows = self.sql("SELECT status, count(*) FROM orders.outbox GROUP BY status", USERS["openoutbox_reader"])
        return {row[0]: row[1] for row in rows}


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Production]:
    folder = tmp_path_factory.mktemp("production")
    with SecuredPostgres(folder / "server") as server:
        with psycopg.connect(server.server.url, autocommit=True) as admin:
            admin.execute("CREATE ROLE master LOGIN CREATEROLE PASSWORD 'secret-of-master'")
            admin.execute("CREATE DATABASE app OWNER master")
        place = Production(server, folder, {})
        place.sql("CREATE SCHEMA orders")
        assert "-- there is no table orders.outbox" in place.done("roles", user="master")
        for group, user in USERS.items():
            place.sql(f"CREATE ROLE {user} LOGIN PASSWORD 'secret-of-{user}' IN ROLE {group}")
        place.done("roles", "--migrator", "u_owner", user="master")
        place.jobs.update(run_by_the_chart(CHART, secrets(place), folder / "etc"))
        for name in ("migrate", "roles"):
            place.run(name)
        for command in (
            ["log", "migrate"],
            ["inbox", "migrate", "--table", INBOX, "--with", "dead-letters"],
            ["store", "migrate", "--schema", STORE],
            ["spark", "setup"],
            ["roles"],
        ):
            place.done(*command, user="u_owner")
        place.done("roles", user="master")
        assert "up to date" in place.done("roles", user="master")
        yield place


def secrets(place: Production) -> dict[str, dict[str, str]]:
    """The Secrets of docs/operate/deployment.md."""
    files = {"relay": place.url("u_relay", CA) + "\n", "log": place.url("u_log_recorder", CA) + "\n"}
    return {
        "ca": {"ca.crt": place.server.identities.ca_file.read_text(encoding="utf-8")},
        "database": files,
        "tokens": {"tokens": (DEPLOY / "console" / "tokens").read_text(encoding="utf-8")},
        "openoutbox-relay": {},
        "openoutbox-migrate": {"STORAGE_URL": place.url("u_owner", CA)},
        "openoutbox-prune": {"STORAGE_URL": place.url("u_pruner", CA)},
        "openoutbox-console": {
            "STORAGE_URL": place.url("u_console", CA),
            "DELIVERY_LOG_URL": place.url("u_console", CA),
        },
        "openoutbox-logpartitions": {"DELIVERY_LOG_URL": place.url("u_owner", CA)},
    }


def test_every_job_of_the_chart_works_as_its_user(production: Production) -> None:
    for _ in range(3):
        production.sql(INSERT, USERS["openoutbox_writer"])
    attempts = "SELECT count(*) FROM openoutbox_log.attempts"
    with production.started("relay") as relay, production.started("console") as console:
        wait_until(lambda: relay.running and production.counts() == {"DELIVERED": 3}, what="the deliveries")
        wait_until(lambda: production.sql(attempts, USERS["openoutbox_log_reader"]) == [(3,)], what="the attempts")
        assert relay.get("/readyz")[0] == 200
        wait_until(lambda: console.running and console.get("/healthz")[0] == 200, what="the console")
        stats = f"http://127.0.0.1:{console.port}/api/v1/stats"
        assert httpx.get(stats, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert relay.stop() == 0
    assert "t" in production.done("log", "attempts", user=USERS["openoutbox_log_reader"])
    production.as_superuser("UPDATE orders.outbox SET delivered_at = now() - interval '8 days'")
    assert "delivered: deleted 3 events" in production.run("prune")
    production.run("maintain")


def test_every_user_has_the_rights_of_its_role(production: Production) -> None:
    for group in GROUPS:
        done = production.cli("check", *asking_for(group), user=USERS[group.name], PUBLISHER_TYPE="null")
        assert done.returncode == 0, (group.name, done.stdout, done.stderr)


def asking_for(group: RoleGroup) -> tuple[str, ...]:
    """The options of check for a role."""
    return ("--for", group.role, *(("--schema", STORE) if group.role is Role.EVENTSTORE else ()))


def test_spark_writes_as_its_user(production: Production) -> None:
    before = sum(int(str(count)) for count in production.counts().values())
    save(orders(100), idColumns="number", url=production.url("u_spark_writer"), table=str(TABLE))
    assert sum(int(str(count)) for count in production.counts().values()) == before + 100
    production.as_superuser("DELETE FROM orders.outbox")


async def test_the_event_store_is_written_read_and_subscribed_to_by_its_users(production: Production) -> None:
    tenant, stream = uuid4(), uuid4()
    async with await EventStore.connect(production.url("u_owner"), schema=STORE) as store:
        await store.provision_tenant(tenant)
    async with await EventStore.connect(production.url("u_store_writer"), schema=STORE) as store:
        await store.append(tenant, stream, [NewEvent("first")], NO_STREAM)
    async with await EventStore.connect(production.url("u_store_reader"), schema=STORE) as store:
        assert [event.type for event in await store.read_all()] == ["first"]
    async with (
        await EventStore.connect(production.url("u_store_subscriber"), schema=STORE) as store,
        aclosing(store.subscribe("production")) as batches,
    ):
        assert [event.type for event in await anext(batches)] == ["first"]


def test_a_password_that_is_rotated_under_load_loses_no_event(production: Production) -> None:
    file, ca_file = (str(production.folder / "etc" / name) for name in ("database/relay", "ca/ca.crt"))
    before = int(str(production.counts().get("DELIVERED", 0)))
    stop = threading.Event()
    inserted = 0

    def insert() -> None:
        nonlocal inserted
        with psycopg.connect(production.url(USERS["openoutbox_writer"]), autocommit=True) as connection:
            while not stop.is_set():
                connection.execute(INSERT.encode())
                inserted += 1
                pace(0.005)

    with production.started("relay") as relay:
        relay.wait_ready()
        load = threading.Thread(target=insert)
        load.start()
        production.sql("ALTER ROLE u_relay PASSWORD 'rotated'")
        production.as_superuser("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'u_relay'")
        wait_until(lambda: relay.get("/readyz")[0] == 503, what="the old password is refused")
        Path(file).write_text(production.url("u_relay", ca_file, "rotated") + "\n", encoding="utf-8")
        wait_until(lambda: relay.get("/readyz")[0] == 200, 5, "the new password is taken")
        stop.set()
        load.join()
        wait_until(lambda: production.counts() == {"DELIVERED": before + inserted}, what="every event is delivered")
        assert relay.stop() == 0
    production.sql("ALTER ROLE u_relay PASSWORD 'secret-of-u_relay'")
    Path(file).write_text(production.url("u_relay", ca_file) + "\n", encoding="utf-8")


LOG_ROLES = {"openoutbox_log_recorder": "record", "openoutbox_log_reader": "read"}
EXAMINED = [group for group in GROUPS if group.role is not Role.MIGRATE]


def rights_of_group(group: RoleGroup) -> list[Right]:
    """What the roles command grants it, on what is there, beside the rights of the schema of the outbox."""
    every = rights_of(Rooms(TABLE, RolesRequest(TABLE, store_schema=STORE), "gapless").grants(group))
    own = [right for right in every if right.column != "acknowledged_by"]  # with a fan-out alone, which is not here
    elsewhere = group.name in LOG_ROLES or group.role is Role.EVENTSTORE
    of_schema = [] if elsewhere else [Right("USAGE", "schema", '"orders"')]
    return [*of_schema, *own]


@contextmanager
def taken_away(production: Production, group: RoleGroup, right: Right) -> Iterator[None]:
    """One right less."""
    kind = "" if right.kind == "table" else f"{right.kind} "
    privilege = f"{right.privilege} ({right.column})" if right.column else right.privilege
    text = f"{privilege} ON {kind}{right.object}"
    production.as_superuser(f"REVOKE {text} FROM {group.name}")
    try:
        yield
    finally:
        production.as_superuser(f"GRANT {text} TO {group.name}")


def names(output: str, right: Right) -> bool:
    """Whether it names the GRANT of a right, or of the role that has those on the log."""
    if "openoutbox_log" in right.object and "GRANT openoutbox_log_" in output:
        return True
    place = re.escape(right.object.rpartition(".")[2].strip('"'))
    return re.search(rf"GRANT [^;]*\b{right.privilege}\b[^;]* ON [^;]*{place}", output) is not None


@pytest.mark.parametrize("group", [pytest.param(group, id=group.name) for group in EXAMINED])
def test_check_names_each_right_that_is_taken_away(production: Production, group: RoleGroup) -> None:
    user = USERS[group.name]
    # The log of a relay is examined with the relay.
    examined: tuple[str, ...] = () if group.role in (Role.RELAY, Role.DELIVERYLOG) else asking_for(group)
    variables = {"PUBLISHER_TYPE": "null", "DELIVERY_LOG_URL": production.url(user)}
    if group.role is Role.RELAY:
        variables["DELIVERY_LOG_URL"] = ""
    if group.name == "openoutbox_log_recorder":
        variables["STORAGE_URL"] = production.url("u_relay")
    if group.name == "openoutbox_log_reader":
        examined = ("--for", "deliverylog")
    unnamed = {}
    for right in rights_of_group(group):
        with taken_away(production, group, right):
            done = production.cli("check", *examined, user=user, **variables)
        if not names(done.stdout, right):
            unnamed[str(right)] = done.stdout + done.stderr
    assert unnamed == {}


COMMANDS = {
    "openoutbox_pruner": (["prune"], ["inbox", "prune", "--table", INBOX]),
    "openoutbox_reader": (["stats"], ["list"], ["inbox", "stats", "--table", INBOX]),
    "openoutbox_operator": (["pause", "--type", "t"], ["resume", "--type", "t"], ["fleet"]),
    "openoutbox_log_reader": (["log", "attempts"],),
}


@pytest.mark.parametrize("group", [pytest.param(group, id=group.name) for group in GROUPS if group.name in COMMANDS])
def test_a_command_without_a_right_names_its_grant(production: Production, group: RoleGroup) -> None:
    user = USERS[group.name]
    refused = 0
    for right in rights_of_group(group):
        with taken_away(production, group, right):
            for command in COMMANDS[group.name]:
                done = production.cli(*command, user=user)
                assert done.returncode == 0 or names(done.stderr, right), (command, str(right), done.stderr)
                refused += done.returncode != 0
    assert refused >= len(COMMANDS[group.name])


@pytest.mark.parametrize(
    "right",
    [
        Right("USAGE", "schema", '"orders"'),
        Right("SELECT", "table", TABLE.quoted),
        Right("UPDATE", "table", TABLE.quoted, "status"),
        Right("SELECT", "table", '"orders"."outbox_pauses"'),
        Right("INSERT", "table", '"orders"."outbox_relays"'),
    ],
    ids=str,
)
def test_a_relay_without_a_right_names_its_grant(production: Production, right: Right) -> None:
    [group] = [group for group in GROUPS if group.role is Role.RELAY]
    with taken_away(production, group, right), production.started("relay") as relay:
        wait_until(lambda: relay.running and names(relay.log(), right), 15, f"the GRANT of {right}")
