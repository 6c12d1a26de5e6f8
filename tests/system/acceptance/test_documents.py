"""What the documents show works: every block in a language that can be run is run, or says here why it cannot be."""

from __future__ import annotations

import ast
import re
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import sqlalchemy
from typer.main import get_command

from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from relay_cli.app import app
from tests.support.documents import DOCUMENTS, Block, blocks, run_python, run_shell, shell
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.paths import ROOT
from tests.support.psql import WITH_PSQL
from tests.support.waiting import wait_until
from tests.system.acceptance.not_run import NOT_RUN

URL = "postgres://user:secret@localhost:5432/app"
RUNNABLE = ("sh", "python", "sql")
FOUND = [block for document in DOCUMENTS for block in blocks(document)]


@dataclass(frozen=True, slots=True)
class Reader:
    """Who follows a document: has an outbox, may have a relay and a Kafka, works in an empty folder."""

    outbox: Outbox
    folder: Path
    daemon: StartDaemon
    kafka: Callable[[], str]


Follow = Callable[[Reader, Block], None]


@pytest.fixture
def reader(outbox: Outbox, tmp_path: Path, daemon: StartDaemon, request: pytest.FixtureRequest) -> Reader:
    return Reader(outbox, tmp_path, daemon, lambda: str(request.getfixturevalue("kafka")))


def runs_until(reader: Reader, block: Block, sign: str, **variables: str) -> str:
    """Run what ends by Ctrl-C alone until it has printed ``sign``; all that it has printed."""
    log = reader.folder / "log"
    with shell(block.text, reader.folder, log, **variables) as process:
        wait_until(lambda: process.poll() is not None or sign in log.read_text(), 60, sign)
        assert process.poll() is None, log.read_text()
        return log.read_text()


def an_example_of_the_command_line(reader: Reader, block: Block) -> None:
    database, server = reader.outbox.database, urlsplit(reader.outbox.url)
    reader.outbox.insert([Row("user.signup")])
    database.run("UPDATE openoutbox_events SET event_id = '0190b0a0-0000-7000-8000-000000000001', status = 'DEAD'")
    database.run("CREATE SCHEMA orders")
    if block.text.startswith("relay-cli stats --watch"):
        runs_until(reader, block, "in_flight_count", STORAGE_URL=reader.outbox.url)
        return
    for extension in ("pause", "fleet"):
        add_extension(reader.outbox.owner_url, TableName(), extension)
    variables = {
        "STORAGE_URL": reader.outbox.url,
        "PATH": WITH_PSQL,
        "PGHOST": str(server.hostname),
        "PGPORT": str(server.port),
        "PGUSER": str(server.username),
        "PGDATABASE": database.name,
    }
    run_shell(block.text, reader.folder, **variables)
    if "| psql" in block.text:
        assert database.run("SELECT count(*) FROM orders.outbox") == [(0,)]
    if "replay" in block.text:
        assert reader.outbox.counts() == {"PENDING": 1}


DJANGO = """
from django.conf import settings

url = %r
names = {"NAME": url["database"], "USER": url["username"], "HOST": url["host"], "PORT": url["port"]}
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", **names}})
"""


def announcing(reader: Reader, block: Block) -> None:
    database = reader.outbox.database
    database.run("CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)")
    database.run("INSERT INTO accounts VALUES (7, 100)")
    driver = "+psycopg" if "sqlalchemy" in block.text else ""
    if "django" in block.text:
        program = f"{DJANGO % (sqlalchemy.make_url(reader.outbox.url).translate_connect_args(),)}{block.text}"
    else:
        theirs = URL if not driver else URL.replace("postgres:", "postgresql+psycopg:")
        program = block.adapted({theirs: sqlalchemy_url(reader, driver)}).text
    run_python(program + ("\ndebit(7, 10)\n" if "def debit(account" in program else ""), reader.folder)
    assert database.run("SELECT balance FROM accounts") == [(90,)]
    assert reader.outbox.rows("event_type, partition_key") == [("account.debited", "7")]


def announcing_an_object(reader: Reader, block: Block) -> None:
    run_python(block.adapted({URL: reader.outbox.url}).text, reader.folder)
    assert reader.outbox.rows("event_type, partition_key, payload, headers") == [
        ("order.placed", "ada", b'{"customer_id":"ada","amount":"9.90"}', {"source": "shop"})
    ]


def checking_announcements(reader: Reader, block: Block) -> None:
    (reader.folder / "test_page.py").write_text(block.adapted({URL: reader.outbox.url}).text, encoding="utf-8")
    assert "1 passed" in run_shell("python -m pytest -q test_page.py", reader.folder)
    assert reader.outbox.rows("event_type") == []


def a_program(reader: Reader, block: Block) -> None:
    run_python(block.text, reader.folder)


def sqlalchemy_url(reader: Reader, driver: str) -> str:
    """The database's URL with another driver in it."""
    url = sqlalchemy.make_url(reader.outbox.url).set(drivername=f"postgresql{driver}")
    return url.render_as_string(hide_password=False)


def making_the_functions(reader: Reader, block: Block) -> None:
    assert "added extension sql-api" in run_shell(block.text, reader.folder, STORAGE_URL=reader.outbox.owner_url)


def announcing_in_sql(reader: Reader, block: Block) -> None:
    database = reader.outbox.database
    add_extension(reader.outbox.owner_url, TableName(), "sql-api")
    database.run("CREATE TABLE accounts AS SELECT 7 AS id, 100 AS balance")
    database.run(block.text)
    assert database.run("SELECT balance FROM accounts") == [(90,)]
    payload = rb'{"account": 7, "memo": "5\" pipe, C:\\tmp"}'
    assert reader.outbox.rows("event_type, partition_key, payload") == [("account.debited", "7", payload)]


def granting_what_takes_back(reader: Reader, block: Block) -> None:
    database = reader.outbox.database
    add_extension(reader.outbox.owner_url, TableName(), "sql-api")
    with psycopg.connect(reader.outbox.writer_url) as writer:
        [event_id] = writer.execute("SELECT openoutbox_enqueue('t', '{}')").fetchone() or ()
        writer.commit()
        database.run(block.text)
        assert writer.execute("SELECT openoutbox_cancel(%s)", [event_id]).fetchone() == (True,)


def the_event_store(reader: Reader, block: Block) -> None:
    printed = run_python(block.adapted({URL: reader.outbox.url}).text, reader.folder)
    assert "['AccountOpened']" in printed
    assert reader.outbox.rows("event_type") == [("bank.accounts",)]


A_STORE = """
import asyncio, uuid
from relay.eventstore import EventStore

TENANT, STREAM = uuid.UUID(int=1), uuid.UUID(int=2)

async def prepare():
    async with await EventStore.connect("URL", schema="bank") as store:
        await store.migrate()
        await store.provision_tenant(TENANT)

asyncio.run(prepare())
"""
IN_A_SESSION = """
import sqlalchemy

with Session(sqlalchemy.create_engine("URL")) as session:
    deposit(session, str(TENANT), str(STREAM), 5, 0)
    deposit(session, str(TENANT), str(STREAM), 7, 1)
    session.commit()
"""


def appending_in_a_session(reader: Reader, block: Block) -> None:
    program = A_STORE.replace("URL", reader.outbox.url) + block.text
    run_python(program + IN_A_SESSION.replace("URL", sqlalchemy_url(reader, "+psycopg")), reader.folder)
    amounts = "SELECT array_agg(Data->'amount' ORDER BY Version) FROM bank.event"
    assert reader.outbox.database.run(amounts) == [([5, 7],)]
    assert reader.outbox.rows("event_type") == [("bank.accounts",)] * 2


SUBSCRIBER = """
import asyncio, contextlib
from uuid import uuid4

import psycopg
from relay.eventstore import NO_STREAM, EventStore, NewEvent

async def apply(connection, event):
    await connection.execute("CREATE TABLE applied AS SELECT %s::text AS type", [event.type])

async def main():
    tenant = uuid4()
    connecting = psycopg.AsyncConnection.connect("URL", autocommit=True)
    async with await EventStore.connect("URL") as store, await connecting as connection:
        await store.migrate()
        await store.provision_tenant(tenant)
        await store.append(tenant, uuid4(), [NewEvent("Opened")], NO_STREAM)
BLOCK

asyncio.run(main())
"""


def a_subscription(reader: Reader, block: Block) -> None:
    body = textwrap.indent(block.text, " " * 8)
    program = SUBSCRIBER.replace("URL", reader.outbox.url).replace("BLOCK", body)
    (reader.folder / "subscriber.py").write_text(program, encoding="utf-8")
    log, database = reader.folder / "log", reader.outbox.database
    with shell("python subscriber.py", reader.folder, log) as process:

        def applied() -> bool:
            assert process.poll() is None, log.read_text()
            return database.run("SELECT to_regclass('applied') IS NOT NULL") == [(True,)]

        wait_until(applied, what="the event")
    assert database.run("SELECT type FROM applied") == [("Opened",)]


def the_delivery_log(reader: Reader, block: Block) -> None:
    own = {"postgres://user:secret@localhost:5432/log": reader.outbox.url}
    run_shell(block.adapted(own).text, reader.folder)
    assert reader.outbox.database.run("SELECT count(*) FROM openoutbox_log.attempts") == [(0,)]


def an_event_that_does_not_arrive(reader: Reader, block: Block) -> None:
    reader.outbox.insert([Row("user.signup")])
    reader.outbox.database.run("UPDATE openoutbox_events SET status = 'DEAD', last_error = 'no such topic'")
    relay = reader.daemon(PUBLISHER_TYPE="null").wait_ready()
    text = block.adapted({"localhost:8080": f"127.0.0.1:{relay.port}"}).text
    said = run_shell(text, reader.folder, STORAGE_URL=reader.outbox.url)
    for expected in ("rights: ", "dead_count          1", "no such topic", '"ready":true'):
        assert expected in said


def sending_again_what_is_dead(reader: Reader, block: Block) -> None:
    reader.outbox.insert([Row("user.signup")])
    reader.outbox.database.run("UPDATE openoutbox_events SET status = 'DEAD'")
    assert "would replay 1 dead event" in run_shell(block.text, reader.folder, STORAGE_URL=reader.outbox.url)
    assert reader.outbox.counts() == {"PENDING": 1}


def who_holds_the_horizon(reader: Reader, block: Block) -> None:
    database = reader.outbox.database
    with psycopg.connect(database.url, application_name="a report") as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("SELECT count(*) FROM openoutbox_events")
        assert "a report" in [row[2] for row in database.run(block.text)]


def pausing_a_type(reader: Reader, block: Block) -> None:
    said = run_shell(block.text, reader.folder, STORAGE_URL=reader.outbox.owner_url)
    assert said.count("user.signup") >= 3
    assert reader.outbox.database.run("SELECT count(*) FROM openoutbox_pauses") == [(0,)]


def storage_parameters(reader: Reader, block: Block) -> None:
    said = run_shell(block.text, reader.folder, STORAGE_URL=reader.outbox.owner_url)
    assert "added extension tuning" in said
    options = "SELECT reloptions FROM pg_class WHERE oid = 'openoutbox_events'::regclass"
    assert "autovacuum_vacuum_threshold=100000" in reader.outbox.database.run(options)[0][0]


def a_relay_for_the_examples(reader: Reader, block: Block) -> None:
    own = block.adapted({URL: reader.outbox.url, "localhost:9092": reader.kafka()})
    runs_until(reader, own, "broker_reachable")


def the_bank(reader: Reader, block: Block) -> None:
    variables = {"STORAGE_URL": reader.outbox.url, "PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": reader.kafka()}
    assert "Iron Bank: Ada has" in runs_until(reader, block, "broker_reachable", **variables)


RUN: dict[str, Follow] = {
    **{f"docs/reference/cli.md sh {number}": an_example_of_the_command_line for number in (*range(1, 13), 14, 15)},
    "docs/guide/first-event.md python 2": announcing,
    "docs/guide/first-event.md python 3": announcing,
    "docs/guide/first-event.md python 4": announcing,
    "docs/guide/client.md python 1": announcing_an_object,
    **{f"docs/guide/testing.md python {number}": checking_announcements for number in (1, 2)},
    "docs/guide/from-debezium.md python 1": a_program,
    "docs/guide/sql-api.md sh 1": making_the_functions,
    "docs/guide/sql-api.md sql 1": announcing_in_sql,
    "docs/guide/sql-api.md sql 2": granting_what_takes_back,
    "docs/guide/event-store.md python 1": the_event_store,
    "docs/guide/event-store.md python 2": appending_in_a_session,
    "docs/guide/event-store.md python 3": a_subscription,
    "docs/operate/delivery-log.md sh 1": the_delivery_log,
    "docs/operate/troubleshooting.md sh 1": an_event_that_does_not_arrive,
    "docs/operate/troubleshooting.md sh 2": sending_again_what_is_dead,
    "docs/operate/running.md sh 1": pausing_a_type,
    "docs/operate/large-table.md sh 1": storage_parameters,
    "docs/operate/large-table.md sql 1": who_holds_the_horizon,
    "examples/README.md sh 1": a_relay_for_the_examples,
    "examples/bank/README.md sh 1": the_bank,
}
"""How each block is followed, and what must come of it."""


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(
            block, id=block.key, marks=[pytest.mark.kafka] * (RUN[block.key] in (a_relay_for_the_examples, the_bank))
        )
        for block in FOUND
        if block.key in RUN
    ],
)
def test_a_block_does_what_it_says(reader: Reader, block: Block) -> None:
    RUN[block.key](reader, block)


def test_every_block_is_run_or_says_why_not() -> None:
    """A new block fails here until it has a step that follows it; tests/docs/test_pages.py has the other languages."""
    runnable = [block.key for block in FOUND if block.language in RUNNABLE]
    assert sorted(runnable) == sorted([*RUN, *NOT_RUN])


@pytest.mark.parametrize("block", [pytest.param(block, id=block.key) for block in FOUND if block.language != "sql"])
def test_every_block_can_be_parsed(block: Block) -> None:
    if block.language == "sh":
        parsed = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
        assert (parsed.returncode, parsed.stderr) == (0, "")
    elif block.language == "python":
        compile(block.text, block.key, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def named_commands() -> Iterator[tuple[str, str]]:
    """Every ``relay-cli …`` in running text, with its document."""
    for document in DOCUMENTS:
        text = re.sub(
            r"^```.*?^```$", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
        )
        for command in re.findall(r"`(relay-cli [^`]+)`", text):
            yield document, " ".join(command.split())


@pytest.mark.parametrize(("document", "text"), sorted(set(named_commands())))
def test_a_command_that_is_named_exists_with_its_options(document: str, text: str) -> None:
    command: Any = get_command(app)
    options = {"--help", "--version", "--storage-url", "--install-completion", "--show-completion"}
    own_words, _, _ = text.partition(" -- ")
    for word in re.sub(r"[][|…]", " ", own_words).split()[1:]:
        commands: list[str] = command.list_commands(None) if hasattr(command, "list_commands") else []
        if word.startswith("--"):
            assert word.partition("=")[0] in options, f"{document}: {text}"
        elif commands and word.islower():
            assert word in commands, f"{document}: {text}"
            command = command.get_command(None, word)
            options |= {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
