"""``relay-cli roles`` on a managed database: its owner is no superuser, and no old owner loses anything.

Roles belong to the whole server, so each test has a server of its own.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import errors

from relay.core.role import Role
from relay.localservers.postgres import DEFAULT_BUILD, NEWEST_BUILD
from relay.postgres.roles import GROUPS
from tests.cli.running import call_cli
from tests.support.documents import blocks
from tests.support.fixtures.outbox import as_user
from tests.support.servers.memory_postgres import MemoryPostgres

pytestmark = pytest.mark.postgres

EXTENSIONS = ("console", "fan-out", "fleet", "key-order", "pause", "replay-audit", "series", "sql-api", "wake-up")
INSERT = "INSERT INTO {} (event_id, event_type, payload) VALUES (gen_random_uuid(), 't', '')"
OWNERS = """
SELECT DISTINCT pg_get_userbyid(relowner)::text FROM pg_class
WHERE relkind IN ('r', 'p', 'S') AND relnamespace::regnamespace::text = ANY(%s)
UNION SELECT pg_get_userbyid(proowner)::text FROM pg_proc WHERE pronamespace::regnamespace::text = ANY(%s)
"""


@dataclass(frozen=True)
class Managed:
    """A database as a managed service hands it out: its owner has CREATEROLE, and is no superuser."""

    superuser: str
    folder: Path

    @property
    def url(self) -> str:
        return as_user(self.superuser, "master")

    def run(self, sql: str, user: str = "master", values: list[object] | None = None) -> list[tuple[object, ...]]:
        with psycopg.connect(as_user(self.superuser, user), autocommit=True) as connection:
            cursor = connection.execute(sql.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def login(self, name: str, *groups: str) -> str:
        """The URL of a new user, who is a member of these."""
        self.run(f"CREATE ROLE {name} LOGIN")
        for group in groups:
            self.run(f"GRANT {group} TO {name}")
        return as_user(self.superuser, name)

    def cli(self, *arguments: str, url: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        return call_cli(self.folder, *arguments, STORAGE_URL=url or self.url, **variables)

    def roles(self, *arguments: str, url: str = "", code: int = 0, **variables: str) -> str:
        done = self.cli("roles", *arguments, url=url, **variables)
        assert (done.returncode, done.stderr) == (code, ""), done.stdout
        return done.stdout


EACH = pytest.mark.parametrize("managed", [DEFAULT_BUILD, NEWEST_BUILD], indirect=True)
"""Since PostgreSQL 16 a role administers only what it has created, or was given to administer."""


@pytest.fixture
def managed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Managed]:
    with MemoryPostgres(build=getattr(request, "param", NEWEST_BUILD)) as server:
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("CREATE ROLE master LOGIN CREATEROLE CREATEDB")
            admin.execute("CREATE DATABASE app OWNER master")
        url = urlsplit(server.url)._replace(path="/app").geturl()
        yield Managed(url, tmp_path)


def refused(managed: Managed, sql: str, user: str) -> bool:
    try:
        managed.run(sql, user)
    except errors.InsufficientPrivilege:
        return True
    return False


@EACH
def test_an_owner_with_createrole_sets_up_everything_before_and_after_the_table(managed: Managed) -> None:
    first = managed.roles()
    assert "there is no table public.openoutbox_events; make it: relay-cli migrate" in first
    migrator = managed.login("migrator")
    managed.roles("--migrator", "migrator")
    extensions = [argument for name in EXTENSIONS for argument in ("--with", name)]
    for command in (
        ["migrate", *extensions],
        ["inbox", "migrate", "--with", "dead-letters"],
        ["log", "migrate"],
        ["store", "migrate", "--schema", "store"],
        ["spark", "setup"],
    ):
        done = managed.cli(*command, url=migrator, DELIVERY_LOG_URL=migrator)
        assert done.returncode == 0, (command, done.stderr)
    granted = managed.roles(EVENT_STORE_SCHEMA="store", url=migrator)
    assert 'ON "public"."openoutbox_pauses" TO "openoutbox_relay"' in granted
    managed.roles(EVENT_STORE_SCHEMA="store")
    assert managed.roles(EVENT_STORE_SCHEMA="store").startswith("-- the roles of public.openoutbox_events are up to")
    schemas: list[object] = [["public", "openoutbox_log", "openoutbox_spark", "store"]] * 2
    assert managed.run(OWNERS, values=schemas) == [("openoutbox_owner",)]
    for group in GROUPS:
        url = managed.login(f"a_{group.name}", group.name)
        if group.name == "openoutbox_owner":
            managed.roles("--migrator", f"a_{group.name}")
        schema = ["--schema", "store"] if group.role == "eventstore" else []
        variables = {"DELIVERY_LOG_URL": url, "PUBLISHER_TYPE": "null", "EVENT_STORE_SCHEMA": "store"}
        done = managed.cli("check", "--for", group.role, "--json", *schema, url=url, **variables)
        faults = [finding for finding in json.loads(done.stdout)["findings"] if finding["level"] == "error"]
        assert faults == [], group.name


@EACH
def test_the_user_that_migrates_acts_as_the_owner_without_options(managed: Managed) -> None:
    migrator = managed.login("migrator")
    text = managed.roles("--migrator", "migrator", "--for", "relay")
    assert 'GRANT "openoutbox_owner" TO "migrator"' in text
    assert 'ALTER ROLE "migrator" SET role TO "openoutbox_owner"' in text
    assert managed.run("SELECT current_user::text", "migrator") == [("openoutbox_owner",)]
    assert "options" not in migrator
    assert managed.cli("migrate", url=migrator).returncode == 0
    assert managed.run(OWNERS, values=[["public"], ["public"]]) == [("openoutbox_owner",)]
    managed.roles()
    assert "up to date" in managed.roles("--migrator", "migrator")
    assert managed.run("SELECT current_user::text") == [("master",)]


@EACH
def test_a_schema_that_the_runner_may_not_use_adds_nothing_to_the_plan(managed: Managed) -> None:
    superuser = urlsplit(managed.superuser).username or ""
    managed.run("CREATE ROLE other LOGIN", superuser)
    managed.run("CREATE SCHEMA closed AUTHORIZATION other", superuser)
    managed.run("GRANT CREATE ON DATABASE app TO other", superuser)
    other = as_user(managed.superuser, "other")
    table = ["--table", "closed.outbox"]
    for command in (["migrate", *table, "--with", "pause", "--with", "console"], ["log", "migrate"]):
        done = managed.cli(*command, url=other, DELIVERY_LOG_URL=other)
        assert done.returncode == 0, done.stderr
    groups = ",".join(role for role in Role if role not in (Role.MIGRATE, Role.CONSOLE))
    asked = ("--for", groups, *table)
    left = json.loads(managed.roles(*asked, "--json", code=3))
    by_other = [sql for each in left["left"] for sql in each["statements"] if each["run_as"] == "other"]
    assert 'GRANT SELECT ON "closed"."outbox" TO "openoutbox_relay"' in by_other
    assert not [sql for sql in by_other if "inbox" in sql or "fan_out" in sql]
    for sql in by_other:
        managed.run(sql, "other")
    assert refused(managed, "SELECT FROM closed.outbox", "master")
    assert "up to date" in managed.roles(*asked)


@EACH
def test_the_application_that_made_the_table_goes_on(managed: Managed) -> None:
    app = managed.login("app")
    managed.run("GRANT CREATE ON SCHEMA public TO app")
    assert managed.cli("migrate", "--with", "wake-up", "--with", "replay-audit", url=app).returncode == 0
    left = managed.roles(code=3)
    assert "ALTER TABLE public.openoutbox_events OWNER TO openoutbox_owner;" in left.partition("-- run as app:\n")[2]
    managed.run(INSERT.format("openoutbox_events"), "app")
    for line in left.partition("-- run as app:\n")[2].splitlines():
        managed.run(line, "app")
    managed.roles()
    assert "up to date" in managed.roles()
    managed.run(INSERT.format("openoutbox_events"), "app")
    assert managed.run("SELECT count(*) FROM openoutbox_events", "app") == [(2,)]
    migrator = managed.login("migrator")
    managed.roles("--migrator", "migrator")
    done = managed.cli("migrate", "--with", "wake-up", "--with", "replay-audit", url=migrator)
    assert (done.returncode, done.stderr) == (0, "")
    relay = managed.login("relay", "openoutbox_relay")
    managed.run("UPDATE openoutbox_events SET status = 'DEAD'", "app")
    assert managed.cli("replay", "--status", "dead", "--yes", url=relay).returncode == 0


def test_an_application_that_inherits_no_rights_still_inserts(managed: Managed) -> None:
    managed.run("CREATE ROLE app LOGIN NOINHERIT", urlsplit(managed.superuser).username or "")
    managed.run("GRANT CREATE ON SCHEMA public TO app")
    assert managed.cli("migrate", url=as_user(managed.superuser, "app")).returncode == 0
    superuser = managed.superuser
    assert 'available_at) ON "public"."openoutbox_events" TO "app"' in managed.roles(url=superuser)
    managed.run(INSERT.format("openoutbox_events"), "app")


def test_a_table_of_another_name_is_found_by_the_search_path_and_its_pauses_hold(managed: Managed) -> None:
    managed.run("CREATE SCHEMA orders")
    found = f"{managed.url}?options=-csearch_path%3Dorders"
    assert managed.cli("migrate", "--table", "outbox", "--with", "pause", url=found).returncode == 0
    text = managed.roles("--table", "outbox", url=found)
    assert 'ON "orders"."outbox" TO "openoutbox_relay"' in text
    assert "up to date" in managed.roles("--table", "orders.outbox")
    relay = managed.login("relay", "openoutbox_relay")
    assert managed.run("SELECT count(*) FROM orders.outbox_pauses", "relay") == [(0,)]
    done = managed.cli(
        "check", url=f"{relay}?options=-csearch_path%3Dorders", STORAGE_TABLE_NAME="outbox", PUBLISHER_TYPE="null"
    )
    assert done.returncode == 0, done.stdout


@EACH
def test_inboxes_of_other_names_and_schemas_get_their_rights(managed: Managed) -> None:
    managed.run("CREATE SCHEMA billing")
    inboxes = ["inbox_audit", "billing.seen"]
    asked = ["--for", "consumer,prune,operator,migrate", *(word for name in inboxes for word in ("--inbox", name))]
    assert managed.cli("migrate").returncode == 0
    first = managed.roles(*asked)
    assert "there is no table billing.seen; make it: relay-cli inbox migrate --table billing.seen" in first
    assert "openoutbox_inbox" not in first
    for name in inboxes:
        done = managed.cli("inbox", "migrate", "--table", name, "--with", "dead-letters")
        assert done.returncode == 0, done.stderr
    managed.roles(*asked)
    assert managed.roles(*asked).startswith("-- the roles of public.openoutbox_events are up to date")
    users = {name: managed.login(f"a_{name}", f"openoutbox_{name}") for name in ("consumer", "pruner", "operator")}
    for name in inboxes:
        managed.run(f"INSERT INTO {name} (consumer, event_id) VALUES ('c', gen_random_uuid())", "a_consumer")
        pruned = managed.cli("inbox", "prune", "--table", name, "--older-than", "40d", url=users["pruner"])
        listed = managed.cli("inbox", "list", "--table", name, url=users["operator"])
        assert (pruned.returncode, listed.returncode) == (0, 0), pruned.stderr + listed.stderr
        owner = f"SELECT DISTINCT pg_get_userbyid(relowner)::text FROM pg_class WHERE oid = '{name}'::regclass"
        assert managed.run(owner) == [("openoutbox_owner",)]
        checked = managed.cli("check", "--for", "consumer", "--inbox", name, url=users["consumer"])
        assert checked.returncode == 0, checked.stdout
    stranger = managed.login("stranger")
    checked = managed.cli("check", "--for", "consumer", "--inbox", "billing.seen", url=stranger)
    assert 'GRANT SELECT, INSERT ON "billing"."seen" TO "stranger"' in checked.stdout


@EACH
def test_the_owner_of_a_second_outbox_does_not_administer_the_roles(managed: Managed) -> None:
    managed.roles()
    superuser = urlsplit(managed.superuser).username or ""
    managed.run("CREATE ROLE other LOGIN", superuser)
    managed.run("CREATE SCHEMA second AUTHORIZATION other", superuser)
    other = as_user(managed.superuser, "other")
    assert managed.cli("migrate", "--table", "second.outbox", url=other).returncode == 0
    left = json.loads(managed.roles("--table", "second.outbox", "--json", url=other, code=3))
    assert 'GRANT SELECT ON "second"."outbox" TO "openoutbox_relay"' in left["done"]
    by = {sql: each["run_as"] for each in left["left"] for sql in each["statements"]}
    membership = 'GRANT "openoutbox_owner" TO "other"'
    assert membership in by
    assert by[membership] in ("master, or a superuser", "a role with CREATEROLE")
    managed.run(membership)
    managed.roles("--table", "second.outbox", url=other)
    assert "up to date" in managed.roles("--table", "second.outbox", url=other)
    managed.run(INSERT.format("second.outbox"), "other")


def test_a_dry_run_is_a_script_for_psql_and_changes_nothing(managed: Managed) -> None:
    assert managed.cli("migrate", "--with", "pause").returncode == 0
    script = managed.roles("--dry-run")
    assert managed.run("SELECT count(*) FROM pg_roles WHERE rolname LIKE 'openoutbox%'") == [(0,)]
    for line in (line for line in script.splitlines() if not line.startswith("--")):
        managed.run(line)
    assert "up to date" in managed.roles("--dry-run")


def test_a_writer_inserts_what_is_its_own_and_earlier_rights_are_narrowed(managed: Managed) -> None:
    assert managed.cli("migrate").returncode == 0
    managed.roles("--for", "writer")
    assert managed.run("SELECT rolname FROM pg_roles WHERE rolname LIKE 'openoutbox%'") == [("openoutbox_writer",)]
    managed.run("GRANT INSERT ON openoutbox_events TO openoutbox_writer")
    assert "REVOKE INSERT" in managed.roles("--for", "writer")
    managed.login("writer", "openoutbox_writer")
    managed.run(INSERT.format("openoutbox_events"), "writer")
    forged = INSERT.replace("payload)", "payload, attempts)").replace("'')", "'', -1)")
    assert refused(managed, forged.format("openoutbox_events"), "writer")


def test_a_writer_may_compare_a_repeat_where_sql_api_is_installed(managed: Managed) -> None:
    assert managed.cli("migrate", "--table", "orders", "--with", "sql-api").returncode == 0
    managed.roles("--table", "orders")
    managed.login("writer", "openoutbox_writer")
    [(known,)] = managed.run("SELECT orders_enqueue('t', '{}')", "writer")
    same = "SELECT orders_same(%s, 't', sha256('{}'))"
    assert managed.run(same, "writer", [known]) == [(True,)]
    bare = managed.login("bare")
    managed.run("GRANT INSERT (event_id, event_type, payload, partition_key, headers, available_at) ON orders TO bare")
    done = managed.cli("check", "--for", "writer", url=bare, STORAGE_TABLE_NAME="orders")
    assert done.returncode == 0, done.stdout
    assert 'lacks EXECUTE on function "orders_same"(UUID, TEXT, BYTEA)' in done.stdout


@EACH
def test_the_owner_removes_everything_as_documented(managed: Managed) -> None:
    managed.roles()
    everything = [argument for name in EXTENSIONS for argument in ("--with", name)]
    assert managed.cli("migrate", *everything).returncode == 0
    managed.roles()
    [block] = blocks("docs/operate/managed-postgres.md")
    lines = block.text.strip().splitlines()
    for line in [*lines[:3], *(line.replace("openoutbox_relay", group.name) for group in GROUPS for line in lines[3:])]:
        managed.run(line)
    assert managed.run("SELECT count(*) FROM pg_roles WHERE rolname LIKE 'openoutbox%'") == [(0,)]
    assert managed.run("SELECT relname FROM pg_class WHERE relname LIKE 'openoutbox%' AND relkind = 'r'") == []


def test_an_unknown_name_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    done = call_cli(tmp_path, "roles", "--for", "relay,prunes", STORAGE_URL="postgres://u@127.0.0.1:1/d")
    assert done.returncode == 2
    assert "did you mean prune?" in done.stderr
